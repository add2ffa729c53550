package containers

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// cluster is an API server that knows the pods of a test.
type cluster interface {
	put(t testing.TB, pod *corev1.Pod) // adds or changes one
	remove(t testing.TB, namespace, name string)
	river() string // arguments of discovery.kubernetes
}

// podShape is a container of a pod: Kubernetes knows it, and it runs here in the
// cgroup that a kubelet makes.
type podShape struct {
	containerShape
	namespace, pod, node string
	runtime              string // with which the kubelet prefixes the ID
	class                corev1.PodQOSClass
	phase                corev1.PodPhase
}

const thisNode, otherNode = "node-1", "node-2"

// podShapes are pods of each class of quality of service, with either cgroup driver.
// UID stands for the pod's UID.
var podShapes = []podShape{
	{containerShape{name: "shops",
		cgroup: "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope"},
		"sales", "shop-7d9f", thisNode, "containerd://", corev1.PodQOSBurstable, corev1.PodRunning},
	{containerShape{name: "proxy",
		cgroup: "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope"},
		"sales", "shop-7d9f", thisNode, "containerd://", corev1.PodQOSBurstable, corev1.PodRunning},
	{containerShape{name: "store", cgroup: "/kubepods.slice/kubepods-podUID.slice/crio-ID.scope"},
		"data", "store-0", thisNode, "cri-o://", corev1.PodQOSGuaranteed, corev1.PodRunning},
	{containerShape{name: "batch", cgroup: "/kubepods/besteffort/podUID/ID", bare: true},
		"data", "batch-x2x4z", thisNode, "docker://", corev1.PodQOSBestEffort, corev1.PodRunning},
	{containerShape{name: "later", cgroup: "/kubepods/burstable/podUID/ID", late: true},
		"sales", "later-0", thisNode, "containerd://", corev1.PodQOSBurstable, corev1.PodRunning},
	// Not to be profiled: one that the selector, and one that a rule leaves out.
	{containerShape{name: "other", cgroup: "/kubepods/burstable/podUID/ID", bare: true},
		"sales", "other-0", otherNode, "containerd://", corev1.PodQOSBurstable, corev1.PodRunning},
	{containerShape{name: "ended", cgroup: "/kubepods/burstable/podUID/ID", bare: true},
		"sales", "ended-0", thisNode, "containerd://", corev1.PodQOSBurstable, corev1.PodSucceeded},
}

// TestKubernetes profiles pods according to an API server, from their names to the labels in Pyroscope, while pods
// start and end. The test has its own API server, with and without streamed lists. HEADWATER_KUBECONFIG names the file
// of a real one.
func TestKubernetes(t *testing.T) {
	need.Root(t)
	shapes := make([]containerShape, len(podShapes))
	for i, shape := range podShapes {
		shapes[i] = shape.containerShape
		shapes[i].cgroup = strings.ReplaceAll(shape.cgroup, "UID", strings.ReplaceAll(string(shape.uid()), "-", "_"))
	}
	boxes := makeBoxes(t, shapes)
	for i, shape := range podShapes {
		shape.start(t, boxes[i])
	}
	if path := os.Getenv("HEADWATER_KUBECONFIG"); path != "" {
		t.Run("kubeconfig", func(t *testing.T) { tryKubernetes(t, newRealCluster(t, path), boxes) })
		return
	}
	if testkit.IsNightly() { // lists like servers before Kubernetes 1.32
		t.Run("lists", func(t *testing.T) { tryKubernetes(t, startAPIServer(t, false), boxes) })
	}
	t.Run("streamed lists", func(t *testing.T) { tryKubernetes(t, startAPIServer(t, true), boxes) })
}

func tryKubernetes(t *testing.T, c cluster, boxes []box) {
	for i, shape := range podShapes {
		if !shape.late {
			c.put(t, makePod(podShapes[i].pod, boxes))
		}
	}
	server := rig.StartPyroscope(t)
	h := rig.StartHeadwater(t, kubernetesConfig(c, server))
	check := func(i int) {
		t.Helper()
		podShapes[i].checkProfile(t, server, boxes[i])
	}
	for i := range 4 {
		check(i)
	}
	waitHealth(t, h, "pyroscope.ebpf.pods", "healthy", "profiling 4 targets")

	// A pod comes. Like all pods it has no container at first.
	pod := makePod("later-0", boxes)
	pending := pod.DeepCopy()
	pending.Status.Phase, pending.Status.ContainerStatuses = corev1.PodPending, nil
	c.put(t, pending)
	c.put(t, pod)
	check(4)

	// Pods go. Their containers run on here, so that their profiles would be seen.
	c.remove(t, "data", "batch-x2x4z")
	checkGone(t, h, server, 4, podShapes[3])
	if s, ok := c.(*apiServer); ok { // the watch misses this one
		before := s.asked()
		s.removeForgotten("sales", "shop-7d9f")
		checkGone(t, h, server, 2, podShapes[0], podShapes[1])
		if s.asked() == before {
			t.Error("the client has not asked for all pods again after 410 Gone")
		}
	}
	if got := strings.Join(server.LabelValues(t, "pod"), " "); got != "batch-x2x4z later-0 shop-7d9f store-0" {
		t.Errorf("pods in Pyroscope: %s", got)
	}
	if _, unhealthy := h.Unhealthy(t); len(unhealthy) > 0 {
		t.Errorf("not healthy: %v", unhealthy)
	}
	h.Stop(t)
}

// kubernetesConfig is how the documentation of Alloy profiles the pods of a node.
func kubernetesConfig(c cluster, server *rig.Pyroscope) string {
	return fmt.Sprintf(`
discovery.kubernetes "pods" {
	role = "pod"
	selectors {
		role  = "pod"
		field = "spec.nodeName=%s"
	}
	%s
}

discovery.relabel "pods" {
	targets = discovery.kubernetes.pods.targets
	rule {
		source_labels = ["__meta_kubernetes_pod_phase"]
		regex         = "Succeeded|Failed|Completed"
		action        = "drop"
	}
	rule {
		source_labels = ["__meta_kubernetes_namespace"]
		target_label  = "namespace"
	}
	rule {
		source_labels = ["__meta_kubernetes_pod_name"]
		target_label  = "pod"
	}
	rule {
		source_labels = ["__meta_kubernetes_pod_node_name"]
		target_label  = "node"
	}
	rule {
		source_labels = ["__meta_kubernetes_pod_container_name"]
		target_label  = "container"
	}
	rule {
		source_labels = ["__meta_kubernetes_pod_label_app"]
		target_label  = "app"
	}
	rule {
		source_labels = ["__meta_kubernetes_namespace", "__meta_kubernetes_pod_container_name"]
		separator     = "/"
		target_label  = "service_name"
	}
}

pyroscope.ebpf "pods" {
	targets          = discovery.relabel.pods.output
	forward_to       = [pyroscope.write.server.receiver]
	collect_interval = "1s"
}

pyroscope.write "server" {
	endpoint {
		url = %q
	}
	external_labels = {"cluster" = "test"}
}
`, thisNode, c.river(), server.URL)
}

// selector names the profiles of a container by all labels that they should have.
func (s podShape) selector() string {
	return fmt.Sprintf(`{service_name="%s/%s", namespace=%q, pod=%q, container=%q, node=%q, app=%q, cluster="test"}`,
		s.namespace, s.name, s.namespace, s.pod, s.name, s.node, s.pod+"-app")
}

func (s podShape) checkProfile(t testing.TB, server *rig.Pyroscope, b box) {
	t.Helper()
	var all []rig.Stack
	testkit.Eventually(t, "half a second of "+s.name+" is in Pyroscope", func() bool {
		all = rig.Stacks(server.Profile(t, rig.CPUProfile, s.selector(), time.Time{}))
		return rig.Total(rig.OfCommand(all, "app")) >= 5e8
	})

	s.check(t, all, b)
}

// checkGone waits until a number of targets is left. It requires that no profiles of the shapes arrive while another
// pod's do.
func checkGone(t testing.TB, h *rig.Headwater, server *rig.Pyroscope, left int, gone ...podShape) {
	t.Helper()
	waitHealth(t, h, "pyroscope.ebpf.pods", "healthy", fmt.Sprintf("profiling %d targets", left))
	since := time.Now().Add(3 * time.Second) // the last round is on its way
	testkit.Eventually(t, "those that are left go on", func() bool {
		return rig.Total(rig.Stacks(server.Profile(t, rig.CPUProfile, `{pod="store-0"}`, since))) >= 5e8
	})

	for _, s := range gone {
		if more := rig.Stacks(server.Profile(t, rig.CPUProfile, s.selector(), since)); len(more) > 0 {
			t.Errorf("%s is gone from Kubernetes, and still profiled:\n%s", s.pod, rig.Show(more, 3))
		}
	}
}

// uid returns the UID of the shape's pod.
func (s podShape) uid() types.UID {
	return types.UID(fmt.Sprintf("%08x-1f3a-4c5d-8e9f-0123456789ab", crc32.ChecksumIEEE([]byte(s.pod))))
}

// makePod returns what Kubernetes knows of the pod of that name.
func makePod(name string, boxes []box) *corev1.Pod {
	pod := &corev1.Pod{}
	for i, s := range podShapes {
		if s.pod != name {
			continue
		}
		pod.ObjectMeta = metav1.ObjectMeta{Namespace: s.namespace, Name: s.pod, UID: s.uid(),
			Labels: map[string]string{"app": s.pod + "-app"}}
		pod.Spec.NodeName = s.node
		pod.Status.Phase, pod.Status.QOSClass, pod.Status.PodIP, pod.Status.HostIP = s.phase, s.class, "10.1.2.3", "10.0.0.1"
		container := corev1.Container{Name: s.name, Image: "registry.example/" + s.name + ":1"}
		some := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
			corev1.ResourceMemory: resource.MustParse("64Mi")}
		switch s.class {
		case corev1.PodQOSGuaranteed:
			container.Resources.Requests, container.Resources.Limits = some, some
		case corev1.PodQOSBurstable:
			container.Resources.Requests = some
		}
		pod.Spec.Containers = append(pod.Spec.Containers, container)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses,
			corev1.ContainerStatus{Name: container.Name, ContainerID: s.runtime + boxes[i].id})
	}
	return pod
}

// realCluster is a real API server.
type realCluster struct {
	kubeconfig string
	clientset  *client.Clientset
}

func newRealCluster(t testing.TB, kubeconfig string) *realCluster {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	clientset, err := client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &realCluster{kubeconfig, clientset}
}

func (c *realCluster) river() string { return fmt.Sprintf("kubeconfig_file = %q", c.kubeconfig) }

func (c *realCluster) put(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	ctx := context.Background()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
	_, err := c.clientset.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil && !errors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	made, err := c.clientset.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if errors.IsAlreadyExists(err) {
		made, err = c.clientset.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	made.Status = pod.Status // there is no kubelet to do it
	if _, err := c.clientset.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.delete(pod.Namespace, pod.Name) })
}

func (c *realCluster) remove(t testing.TB, namespace, name string) {
	t.Helper()
	if err := c.delete(namespace, name); err != nil {
		t.Fatal(err)
	}
}

func (c *realCluster) delete(namespace, name string) error {
	now := int64(0)
	return c.clientset.CoreV1().Pods(namespace).Delete(context.Background(), name,
		metav1.DeleteOptions{GracePeriodSeconds: &now})
}
