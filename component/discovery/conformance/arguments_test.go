// Package conformance tests what all discovery.* components have in common.
package conformance

import (
	"testing"

	"github.com/grafana/river"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery/dns"
	"github.com/headwater/headwater/component/discovery/docker"
	"github.com/headwater/headwater/component/discovery/file"
	"github.com/headwater/headwater/component/discovery/http"
	"github.com/headwater/headwater/component/discovery/kubernetes"
	"github.com/headwater/headwater/component/discovery/process"
)

// TestArguments decodes configurations and looks at the error, "" for none.
func TestArguments(t *testing.T) {
	tests := []struct {
		registration component.Registration
		config       string
		err          string
	}{
		{docker.Registration(), `host = "unix:///var/run/docker.sock"`, ""},
		{docker.Registration(), `host = "http://u:secret@h:2375"
			port = 1
			refresh_interval = "5s"
			match_first_network = false
			host_networking_host = "h"
			follow_redirects = false
			filter {
				name   = "label"
				values = ["a=b"]
			}
			basic_auth {
				username = "u"
				password = "p"
			}`, ""},
		{docker.Registration(), ``, `missing required attribute "host"`},
		{docker.Registration(), `host = "/var/run/docker.sock"`, "host must be a URL"},
		{docker.Registration(), `host = "unix:///x"
			refresh_interval = "0s"`, "refresh_interval must be greater than 0"},
		{docker.Registration(), `host = "unix:///x"
			bearer_token = "a"
			bearer_token_file = "b"`, "at most one of"},
		{docker.SwarmRegistration(), `host = "unix:///x"
			role = "tasks"`, ""},
		{docker.SwarmRegistration(), `host = "unix:///x"
			role = "pods"`, "invalid role pods"},
		{kubernetes.Registration(), `role = "pod"`, ""},
		{kubernetes.Registration(), `role = "Pod"`, `unknown Kubernetes SD role "Pod"`},
		{kubernetes.Registration(), `role = "pod"
			api_server = "https://h"
			bearer_token = "x"
			namespaces {
				names = ["a"]
			}
			selectors {
				role  = "pod"
				field = "spec.nodeName=n"
			}
			selectors {
				role  = "node"
				label = "a=b"
			}
			attach_metadata {
				node      = true
				namespace = true
			}`, ""},
		{kubernetes.Registration(), `role = "pod"
			selectors {
				role = "service"
			}`, "pod role supports only pod, node selectors"},
		{kubernetes.Registration(), `role = "pod"
			selectors {
				role  = "pod"
				field = "a"
			}`, "invalid"},
		{kubernetes.Registration(), `role = "pod"
			api_server = "https://h"
			kubeconfig_file = "/k"`, "cannot use 'kubeconfig_file' and 'api_server' simultaneously"},
		{kubernetes.Registration(), `role = "pod"
			bearer_token = "x"`, "please provide the 'api_server' URL"},
		{file.Registration(), `files = ["/etc/*.json", "a.yml"]`, ""},
		{file.Registration(), `files = ["/etc/*.txt"]`, "is not valid for file discovery"},
		{file.Registration(), `files = []`, "at least one path name"},
		{http.Registration(), `url = "http://h/targets"`, ""},
		{http.Registration(), `url = "ftp://h/targets"`, ""}, // Alloy runs it: a warning
		{dns.Registration(), `names = ["a"]`, ""},
		{dns.Registration(), `names = ["a"]
			type = "A"`, "a port is required"},
		{dns.Registration(), `names = ["a"]
			type = "A"
			port = 80`, ""},
		{dns.Registration(), `names = ["a"]
			type = "TXT"`, "invalid DNS-SD records type TXT"},
		{process.Registration(), ``, ""},
		{process.Registration(), `join = [{"a" = "b"}]
			refresh_interval = "10s"
			discover_config {
				exe = false
				cwd = false
				commandline = false
				container_id = false
				cgroup_path = true
				username = true
				uid = true
			}`, ""},
		{process.Registration(), `refresh_interval = "-1s"`, "refresh_interval must be greater than 0"},
	}
	for _, test := range tests {
		err := river.Unmarshal([]byte(test.config), test.registration.NewArguments())
		if test.err == "" {
			require.NoError(t, err, "%s: %s", test.registration.Name, test.config)
			continue
		}
		require.ErrorContains(t, err, test.err, "%s: %s", test.registration.Name, test.config)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestProcessDefaults(t *testing.T) {
	var args process.Arguments
	require.NoError(t, river.Unmarshal([]byte(`discover_config { username = true }`), &args))
	require.Equal(t,
		process.Discover{Exe: true, Cwd: true, Commandline: true, ContainerID: true, Username: true}, args.Discover)
}
