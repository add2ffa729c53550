package containers

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// apiServer is the API server of a Kubernetes cluster. It has what the discovery of pods
// needs: lists and watches with resource versions, selectors, bookmarks, streamed lists, and
// 410 Gone for versions that it has forgotten
// (https://kubernetes.io/docs/reference/using-api/api-concepts).
type apiServer struct {
	*httptest.Server
	streams bool // knows sendInitialEvents, as from Kubernetes 1.32

	mu        sync.Mutex
	version   int64
	pods      []*corev1.Pod // as they are now, sorted by podName
	events    []podEvent    // of the versions after forgotten
	forgotten int64
	changed   chan struct{} // closed and replaced at each event
	complete  int           // how often all pods were asked for
}

// podEvent is a change of one pod.
type podEvent struct {
	version  int64
	old, now *corev1.Pod // nil: not there
}

// podFilter says which pods a request is about.
type podFilter struct {
	namespace string // "": all
	labels    labels.Selector
	fields    fields.Selector
}

const apiToken = "eyJ.headwater.test"

// startAPIServer starts a server with TLS, which takes requests with apiToken.
func startAPIServer(t testing.TB, streams bool) *apiServer {
	t.Helper()
	s := &apiServer{streams: streams, version: 1000, forgotten: 1000, changed: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// river returns the arguments of discovery.kubernetes that name the server.
func (s *apiServer) river() string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return fmt.Sprintf("api_server = %q\n\tbearer_token = %q\n\ttls_config {\n\t\tca_pem = %q\n\t}", s.URL, apiToken, ca)
}

func podName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

// put adds a pod, or changes the one of that name.
func (s *apiServer) put(_ testing.TB, pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(podName(pod), pod.DeepCopy())
}

// remove deletes a pod.
func (s *apiServer) remove(_ testing.TB, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(namespace+"/"+name, nil)
}

// removeForgotten deletes a pod and forgets that event: clients that watch have to ask for
// all pods again.
func (s *apiServer) removeForgotten(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(namespace+"/"+name, nil)
	s.events, s.forgotten = nil, s.version
}

// change replaces the pod of that name, or deletes it if pod is nil. s.mu is held.
func (s *apiServer) change(name string, pod *corev1.Pod) {
	s.version++
	event := podEvent{version: s.version, now: pod}
	at := slices.IndexFunc(s.pods, func(p *corev1.Pod) bool { return podName(p) >= name })
	if at >= 0 && podName(s.pods[at]) == name {
		event.old = s.pods[at]
		s.pods = slices.Delete(s.pods, at, at+1)
	} else if at < 0 {
		at = len(s.pods)
	}
	if pod != nil {
		pod.ResourceVersion = fmt.Sprint(s.version)
		s.pods = slices.Insert(s.pods, at, pod)
	}
	s.events = append(s.events, event)
	close(s.changed)
	s.changed = make(chan struct{})
}

// asked returns how often all pods were asked for.
func (s *apiServer) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete
}

var apiPath = regexp.MustCompile(`^/api/v1/(?:namespaces/([^/]+)/)?(pods|nodes|namespaces)$`)

// ServeHTTP answers lists and watches. Of nodes and namespaces there are none.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path, q := apiPath.FindStringSubmatch(r.URL.Path), r.URL.Query()
	labelSelector, labelErr := labels.Parse(q.Get("labelSelector"))
	fieldSelector, fieldErr := fields.ParseSelector(q.Get("fieldSelector"))
	initial := q.Get("sendInitialEvents") == "true"
	switch {
	case r.Header.Get("Authorization") != "Bearer "+apiToken:
		writeStatus(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
	case path == nil:
		writeStatus(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case labelErr != nil || fieldErr != nil:
		writeStatus(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
	case initial && !s.streams:
		writeStatus(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case q.Get("watch") != "":
		seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
		s.watch(w, r, path[2], podFilter{path[1], labelSelector, fieldSelector}, q.Get("resourceVersion"), initial,
			time.Duration(max(seconds, 1))*time.Second)
	default:
		s.list(w, path[2], podFilter{path[1], labelSelector, fieldSelector})
	}
}

// newStatus returns the answer to a request that cannot be met.
func newStatus(code int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: http.StatusText(code)}
}

func writeStatus(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(newStatus(code, reason))
}

func (f podFilter) has(p *corev1.Pod) bool {
	return p != nil && (f.namespace == "" || f.namespace == p.Namespace) && f.labels.Matches(labels.Set(p.Labels)) &&
		f.fields.Matches(fields.Set{
			"metadata.name": p.Name, "metadata.namespace": p.Namespace, "spec.nodeName": p.Spec.NodeName,
			"status.phase": string(p.Status.Phase),
		})
}

// all returns the pods that a request is about. s.mu is held.
func (s *apiServer) all(resource string, filter podFilter) []corev1.Pod {
	if resource != "pods" {
		return nil
	}
	s.complete++
	var found []corev1.Pod
	for _, p := range s.pods {
		if filter.has(p) {
			found = append(found, *p)
		}
	}
	return found
}

func (s *apiServer) list(w http.ResponseWriter, resource string, filter podFilter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := map[string]string{"pods": "PodList", "nodes": "NodeList", "namespaces": "NamespaceList"}[resource]
	items := s.all(resource, filter)
	if items == nil {
		items = []corev1.Pod{}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"kind": kind, "apiVersion": "v1", "metadata": metav1.ListMeta{ResourceVersion: fmt.Sprint(s.version)}, "items": items,
	})
}

// watch sends the events after a version until the time is over, each as one JSON object in
// one chunk.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, resource string, filter podFilter, from string,
	initial bool, limit time.Duration) {
	stream := json.NewEncoder(w)
	send := func(kind string, object any) {
		_ = stream.Encode(map[string]any{"type": kind, "object": object}) // the client sees that it is gone
	}
	bookmark := func(version int64, end bool) {
		var empty corev1.Pod
		empty.TypeMeta = metav1.TypeMeta{Kind: map[string]string{"pods": "Pod", "nodes": "Node",
			"namespaces": "Namespace"}[resource], APIVersion: "v1"}
		empty.ResourceVersion = fmt.Sprint(version)
		if end {
			empty.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		send("BOOKMARK", empty)
	}
	over, tick := time.After(limit), time.NewTicker(time.Second)
	defer tick.Stop()
	since, _ := strconv.ParseInt(from, 10, 64)
	for first := true; ; first = false {
		s.mu.Lock()
		events, version, changed := s.events, s.version, s.changed
		if first && (initial || since == 0) {
			for _, p := range s.all(resource, filter) {
				send("ADDED", p)
			}
			since = version
			if initial {
				bookmark(version, true)
			}
		}
		gone := since < s.forgotten
		s.mu.Unlock()
		if gone {
			send("ERROR", newStatus(http.StatusGone, metav1.StatusReasonExpired))
			return
		}
		for _, e := range events {
			if e.version <= since || resource != "pods" {
				continue
			}
			switch was, is := filter.has(e.old), filter.has(e.now); {
			case was && is:
				send("MODIFIED", e.now)
			case is:
				send("ADDED", e.now)
			case was:
				last := e.old.DeepCopy()
				last.ResourceVersion = fmt.Sprint(e.version)
				send("DELETED", last)
			}
		}
		since = version
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-tick.C:
			bookmark(since, false)
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}
