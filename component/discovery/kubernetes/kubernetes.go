// Package kubernetes is the component discovery.kubernetes: the pods, nodes, services, endpoints or ingresses of a
// cluster. Prometheus' discoverer finds them.
package kubernetes

import (
	"flag"
	"log/slog"
	"strconv"
	"sync"

	"github.com/go-kit/log"
	promconfig "github.com/prometheus/common/config"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"k8s.io/klog/v2"

	"github.com/headwater/headwater/component"
	commonconfig "github.com/headwater/headwater/component/common/config"
	"github.com/headwater/headwater/component/discovery"
)

// Name is the component's name in River.
const Name = "discovery.kubernetes"

// logOnce guards the Kubernetes client's logger: there is one for the whole process, and it must not be replaced while
// the client works.
var logOnce sync.Once

// Registration returns what a host needs to offer the component. The Kubernetes client logs to the logger of the first
// component that is built, instead of to standard error; but an error goes to the component whose request has failed,
// and into its health.
func Registration() component.Registration {
	r := discovery.Registration(Name, convert).Asking("the API server of a cluster")
	build := r.Build
	r.Build = func(opts component.Options, args component.Arguments) (component.Component, error) {
		logOnce.Do(func() { logTo(opts.Logger) })
		return build(opts, args)
	}
	return r
}

// logTo makes the client log to logger.
func logTo(logger log.Logger) {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	_ = flags.Set("v", strconv.Itoa(verbosity)) // fails only for a value that is not a number
	klog.SetSlogLogger(slog.New(sorter{discovery.NewLogger(logger).Handler()}))
}

// Arguments configure discovery.kubernetes. Without api_server and kubeconfig_file it talks to the cluster of the pod
// that it runs in.
type Arguments struct {
	APIServer commonconfig.URL `river:"api_server,attr,optional"`
	// node, pod, service, endpoints, endpointslice or ingress
	Role           string                        `river:"role,attr"`
	KubeConfig     string                        `river:"kubeconfig_file,attr,optional"`
	Namespaces     Namespaces                    `river:"namespaces,block,optional"`
	Selectors      []Selector                    `river:"selectors,block,optional"`
	AttachMetadata AttachMetadata                `river:"attach_metadata,block,optional"`
	HTTPClient     commonconfig.HTTPClientConfig `river:",squash"`
}

// Namespaces limit the search. If none is given, all namespaces are searched.
type Namespaces struct {
	Own   bool     `river:"own_namespace,attr,optional"` // the namespace of the pod that the component runs in
	Names []string `river:"names,attr,optional"`
}

// Selector limits the objects of one role, as the API server understands it.
type Selector struct {
	Role  string `river:"role,attr"`
	Label string `river:"label,attr,optional"`
	Field string `river:"field,attr,optional"`
}

// AttachMetadata adds labels of related objects.
type AttachMetadata struct {
	Node      bool `river:"node,attr,optional"`
	Namespace bool `river:"namespace,attr,optional"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{}
	a.HTTPClient.SetToDefault()
}

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	if err := a.HTTPClient.Validate(); err != nil {
		return err
	}
	_, err := convert(*a)
	return err
}

func convert(a Arguments) (promdiscovery.Config, error) {
	out := &kubernetes.SDConfig{
		APIServer:        promconfig.URL{URL: a.APIServer.URL},
		Role:             kubernetes.Role(a.Role),
		KubeConfig:       a.KubeConfig,
		HTTPClientConfig: a.HTTPClient.Convert(),
		NamespaceDiscovery: kubernetes.NamespaceDiscovery{
			IncludeOwnNamespace: a.Namespaces.Own, Names: a.Namespaces.Names,
		},
		AttachMetadata: kubernetes.AttachMetadataConfig{
			Node: a.AttachMetadata.Node, Namespace: a.AttachMetadata.Namespace,
		},
	}
	if err := checkRole(a.Role); err != nil {
		return nil, err
	}
	for _, s := range a.Selectors {
		out.Selectors = append(out.Selectors,
			kubernetes.SelectorConfig{Role: kubernetes.Role(s.Role), Label: s.Label, Field: s.Field})
	}
	return config{out, calm}, discovery.Check(out)
}

// checkRole checks the role as Prometheus' library does when it reads YAML.
func checkRole(name string) error {
	var role kubernetes.Role
	err := role.UnmarshalYAML(func(into any) error {
		*into.(*string) = name
		return nil
	})
	if err != nil {
		return component.Refuse("role", "%s", err)
	}
	return nil
}
