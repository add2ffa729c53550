// Package kubernetes has the components remote.kubernetes.secret and remote.kubernetes.configmap: the data of a Secret
// or of a ConfigMap of a cluster, kept up to date.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/grafana/river/rivertypes"
	promconfig "github.com/prometheus/common/config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/common/config"
	"github.com/headwater/headwater/component/remote/polled"
)

// The components' names in River.
const (
	SecretName    = "remote.kubernetes.secret"
	ConfigMapName = "remote.kubernetes.configmap"
)

// SecretRegistration returns what a host needs to offer remote.kubernetes.secret.
func SecretRegistration() component.Registration {
	return registration(SecretName, "got secret", getSecret)
}

// ConfigMapRegistration returns what a host needs to offer remote.kubernetes.configmap.
func ConfigMapRegistration() component.Registration {
	return registration(ConfigMapName, "got configmap", getConfigMap)
}

func registration(name, healthy string, get getter) component.Registration {
	kind := polled.Kind[Arguments, Exports]{
		Interval: func(a Arguments) time.Duration { return a.PollFrequency },
		Open:     func(a Arguments) (polled.Client[Exports], error) { return open(a, get) },
		Healthy:  healthy,
	}
	return component.NewRegistration(name, Exports{}, kind.New).Answering("the API server of a cluster")
}

// Arguments configure remote.kubernetes.secret and remote.kubernetes.configmap.
type Arguments struct {
	Namespace     string        `river:"namespace,attr"`
	Name          string        `river:"name,attr"`
	PollFrequency time.Duration `river:"poll_frequency,attr,optional"`
	PollTimeout   time.Duration `river:"poll_timeout,attr,optional"`
	Client        Client        `river:"client,block,optional"`
}

// Client is the block that names the API server. Without api_server and kubeconfig_file it is the one of the pod's own
// cluster.
type Client struct {
	APIServer  config.URL              `river:"api_server,attr,optional"`
	KubeConfig string                  `river:"kubeconfig_file,attr,optional"`
	HTTP       config.HTTPClientConfig `river:",squash"`
}

// Exports are the values that other components can refer to.
type Exports struct {
	Data map[string]rivertypes.OptionalSecret `river:"data,attr"`
}

// SetToDefault implements river.Defaulter.
func (a *Arguments) SetToDefault() {
	*a = Arguments{PollFrequency: time.Minute, PollTimeout: 15 * time.Second}
	a.Client.SetToDefault()
}

// Validate implements river.Validator.
func (a *Arguments) Validate() error {
	switch {
	case a.PollFrequency <= 0:
		return errors.New("poll_frequency must be greater than 0")
	case a.PollTimeout <= 0:
		return errors.New("poll_timeout must be greater than 0")
	}
	return nil
}

// SetToDefault implements river.Defaulter.
func (c *Client) SetToDefault() {
	*c = Client{}
	c.HTTP.SetToDefault()
}

// Validate implements river.Validator.
func (c *Client) Validate() error {
	var plain config.HTTPClientConfig
	plain.SetToDefault()
	custom := !reflect.DeepEqual(c.HTTP, plain)
	switch {
	case c.APIServer.URL != nil && c.KubeConfig != "":
		return errors.New("only one of api_server and kubeconfig_file can be set")
	case c.KubeConfig != "" && custom:
		return errors.New("arguments of the HTTP client are not allowed beside kubeconfig_file, which has them")
	case c.APIServer.URL == nil && custom:
		return errors.New("arguments of the HTTP client need api_server")
	}
	return c.HTTP.Validate()
}

// A getter reads one object of a namespace.
type getter func(ctx context.Context, objects *kubernetes.Clientset, namespace, name string) (Exports, error)

func getSecret(ctx context.Context, objects *kubernetes.Clientset, namespace, name string) (Exports, error) {
	secret, err := objects.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Exports{}, err
	}
	return export(secret.Data, true), nil
}

func getConfigMap(ctx context.Context, objects *kubernetes.Clientset, namespace, name string) (Exports, error) {
	configMap, err := objects.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Exports{}, err
	}
	return export(configMap.Data, false), nil
}

func export[T string | []byte](data map[string]T, secret bool) Exports {
	values := make(map[string]rivertypes.OptionalSecret, len(data))
	for key, value := range data {
		values[key] = rivertypes.OptionalSecret{Value: string(value), IsSecret: secret}
	}
	return Exports{Data: values}
}

// reader reads one object of a cluster.
type reader struct {
	args    Arguments
	http    *http.Client
	objects *kubernetes.Clientset
	get     getter
}

func open(a Arguments, get getter) (polled.Client[Exports], error) {
	settings, err := a.Client.settings()
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(settings)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	objects, err := kubernetes.NewForConfigAndClient(settings, client)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return &reader{a, client, objects, get}, nil
}

// settings returns the settings of Kubernetes' client.
func (c *Client) settings() (*rest.Config, error) {
	switch {
	case c.KubeConfig != "":
		settings, err := clientcmd.BuildConfigFromFlags("", c.KubeConfig)
		if err != nil {
			return nil, component.Refuse("kubeconfig_file", "%s: %s", c.KubeConfig, err)
		}
		return settings, nil
	case c.APIServer.URL == nil:
		settings, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no api_server or kubeconfig_file in the client block, and no cluster here: %w", err)
		}
		return settings, nil
	}
	transport, err := promconfig.NewRoundTripperFromConfig(c.HTTP.Convert(), "remote.kubernetes")
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: c.APIServer.String(), Transport: transport}, nil
}

// Read implements polled.Client.
func (r *reader) Read(ctx context.Context) (Exports, error) {
	ctx, cancel := context.WithTimeout(ctx, r.args.PollTimeout)
	defer cancel()
	return r.get(ctx, r.objects, r.args.Namespace, r.args.Name)
}

// Close implements polled.Client.
func (r *reader) Close() { r.http.CloseIdleConnections() }
