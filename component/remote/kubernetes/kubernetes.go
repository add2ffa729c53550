// Package kubernetes has the components remote.kubernetes.secret and remote.kubernetes.configmap: the data of a Secret
// or of a ConfigMap of a cluster, kept up to date.
package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/grafana/river/rivertypes"
	promconfig "github.com/prometheus/common/config"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	return registration(SecretName, "got secret", "secrets", func(object io.Reader) (Exports, error) {
		return decode[[]byte](object, true)
	})
}

// ConfigMapRegistration returns what a host needs to offer remote.kubernetes.configmap.
func ConfigMapRegistration() component.Registration {
	return registration(ConfigMapName, "got configmap", "configmaps", func(object io.Reader) (Exports, error) {
		return decode[string](object, false)
	})
}

func registration(name, healthy, resource string, decode decoder) component.Registration {
	kind := polled.Kind[Arguments, Exports]{
		Interval: func(a Arguments) time.Duration { return a.PollFrequency },
		Open:     func(a Arguments) (polled.Client[Exports], error) { return openClient(a, resource, decode) },
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

// maxObject bounds the object that is read, in bytes. The API server takes at most 1 MiB of data.
const maxObject = 4 << 20

// A decoder reads the JSON text of an object.
type decoder func(object io.Reader) (Exports, error)

func decode[T string | []byte](object io.Reader, secret bool) (Exports, error) {
	var content struct {
		Data map[string]T `json:"data"`
	}
	if err := json.NewDecoder(object).Decode(&content); err != nil {
		return Exports{}, fmt.Errorf("the answer of the API server: %w", err)
	}
	values := make(map[string]rivertypes.OptionalSecret, len(content.Data))
	for key, value := range content.Data {
		values[key] = rivertypes.OptionalSecret{Value: string(value), IsSecret: secret}
	}
	return Exports{Data: values}, nil
}

// reader reads one object of a cluster. It does so without the typed client of client-go, which adds 12 MB to the
// program.
type reader struct {
	client  *http.Client
	timeout time.Duration
	object  *url.URL
	decode  decoder
}

func openClient(a Arguments, resource string, decode decoder) (polled.Client[Exports], error) {
	settings, err := a.Client.settings()
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(settings)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	client, err := rest.HTTPClientFor(settings)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	object := server.JoinPath("api/v1/namespaces", url.PathEscape(a.Namespace), resource, url.PathEscape(a.Name))
	return &reader{client, a.PollTimeout, object, decode}, nil
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
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.object.String(), nil)
	if err != nil {
		return Exports{}, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return Exports{}, err
	}
	defer response.Body.Close()
	body := io.LimitReader(response.Body, maxObject)
	if response.StatusCode != http.StatusOK {
		var status metav1.Status
		if json.NewDecoder(body).Decode(&status) != nil || status.Message == "" { // it does not come from the API server
			status.Message = response.Status
		}
		return Exports{}, fmt.Errorf("%s: %s", r.object.Redacted(), status.Message)
	}
	return r.decode(body)
}

// Close implements polled.Client.
func (r *reader) Close() { r.client.CloseIdleConnections() }
