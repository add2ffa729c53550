package scrape

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component/discovery"
)

// Labels of a target that change the URL.
const (
	labelPath       = "__profile_path__"
	labelPathPrefix = "__profile_path_prefix__"
)

// endpoint is one profile of one target: a URL to scrape periodically. Two endpoints are the same if they are equal.
type endpoint struct {
	url    string
	labels string // as labels.Labels.String shows them
	kind   kind
	set    labels.Labels
}

func (e endpoint) key() string { return e.url + "\n" + e.labels }

// endpoints returns the endpoints of all targets, without duplicates. It leaves out targets that cannot be scraped, and
// returns an error for each.
func endpoints(args Arguments) (map[string]endpoint, []error) {
	all := map[string]endpoint{}
	var errs []error
	for i, t := range args.Targets {
		for _, k := range args.Profiling.enabled() {
			e, err := newEndpoint(args, t, k)
			if err != nil {
				errs = append(errs, fmt.Errorf("target %d: %w", i+1, err))
				break
			}
			all[e.key()] = e
		}
	}
	return all, errs
}

func newEndpoint(args Arguments, t discovery.Target, k kind) (endpoint, error) {
	scheme := cmp.Or(t[model.SchemeLabel], args.Scheme)
	address, err := withPort(t[model.AddressLabel], scheme)
	if err != nil {
		return endpoint{}, err
	}
	query := args.query()
	for name, value := range t {
		if parameter, ok := strings.CutPrefix(name, model.ParamLabelPrefix); ok {
			query[parameter] = append([]string{value}, query[parameter][min(1, len(query[parameter])):]...)
		}
	}
	if k.Delta {
		query.Set("seconds", strconv.Itoa(args.deltaSeconds()))
	}
	u := url.URL{Scheme: scheme, Host: address, RawQuery: query.Encode()}
	prefix := cmp.Or(t[labelPathPrefix], args.Profiling.PathPrefix)
	e := endpoint{kind: k, url: u.JoinPath(prefix, cmp.Or(t[labelPath], k.Path)).String()}
	e.set = profileLabels(args, t, k, address)
	e.labels = e.set.String()
	return e, nil
}

// profileLabels returns the labels of a target's profiles: the target's labels that are not internal, the kind, the
// job, the instance, and the name of the service.
func profileLabels(args Arguments, t discovery.Target, k kind, address string) labels.Labels {
	out := map[string]string{}
	for name, value := range t {
		if !strings.HasPrefix(name, model.ReservedLabelPrefix) {
			out[name] = value
		}
	}
	setDefault := func(name, value string) {
		if out[name] == "" && value != "" {
			out[name] = value
		}
	}
	out[model.MetricNameLabel] = cmp.Or(t[model.MetricNameLabel], k.name)
	setDefault(model.JobLabel, args.JobName)
	setDefault(model.InstanceLabel, address)
	setDefault("service_name", serviceName(t))
	maps.DeleteFunc(out, func(_, value string) bool { return value == "" })
	return labels.FromMap(out)
}

// withPort returns the address, with the scheme's default port if it has no port.
func withPort(address, scheme string) (string, error) {
	ports := map[string]string{"http": "80", "https": "443"}
	switch {
	case address == "":
		return "", fmt.Errorf("it has no %s", model.AddressLabel)
	case ports[scheme] == "":
		return "", fmt.Errorf("invalid scheme: %q", scheme)
	case strings.Contains(address, "/"):
		return "", fmt.Errorf("%q is not a valid address", address)
	}
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address, nil
	}
	address += ":" + ports[scheme]
	if _, _, err := net.SplitHostPort(address); err != nil {
		return "", fmt.Errorf("%q is not a valid address", address)
	}
	return address, nil
}

// serviceName returns the name of the service according to the labels of a target.
func serviceName(t discovery.Target) string {
	namespace, container := t["__meta_kubernetes_namespace"], t["__meta_kubernetes_pod_container_name"]
	if namespace != "" && container != "" {
		container = namespace + "/" + container
	} else {
		container = ""
	}
	return cmp.Or(
		t["__meta_kubernetes_pod_annotation_pyroscope_io_service_name"], container,
		t["__meta_docker_container_name"], t["__meta_dockerswarm_container_label_service_name"],
		t["__meta_dockerswarm_service_name"], "unspecified",
	)
}
