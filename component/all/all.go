// Package all lists the components of Headwater. A host either takes the whole list from Registry, as headwater does,
// or imports single components, as a build of Grafana Agent does with pyroscope.ebpf. A new component is one line here.
package all

import (
	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/discovery/dns"
	"github.com/headwater/headwater/component/discovery/docker"
	"github.com/headwater/headwater/component/discovery/file"
	"github.com/headwater/headwater/component/discovery/http"
	"github.com/headwater/headwater/component/discovery/kubernetes"
	"github.com/headwater/headwater/component/discovery/process"
	"github.com/headwater/headwater/component/discovery/relabel"
	localfile "github.com/headwater/headwater/component/local/file"
	"github.com/headwater/headwater/component/local/filematch"
	"github.com/headwater/headwater/component/otelcol/exporter"
	"github.com/headwater/headwater/component/pyroscope/ebpf"
	"github.com/headwater/headwater/component/pyroscope/enrich"
	"github.com/headwater/headwater/component/pyroscope/java"
	"github.com/headwater/headwater/component/pyroscope/receivehttp"
	profilerelabel "github.com/headwater/headwater/component/pyroscope/relabel"
	"github.com/headwater/headwater/component/pyroscope/scrape"
	"github.com/headwater/headwater/component/pyroscope/write"
	"github.com/headwater/headwater/component/remote/git"
	remotehttp "github.com/headwater/headwater/component/remote/http"
	remotekubernetes "github.com/headwater/headwater/component/remote/kubernetes"
)

// Registry returns the registrations of all components.
func Registry() (component.Registry, error) {
	return component.NewRegistry(
		dns.Registration(),
		docker.Registration(),
		docker.SwarmRegistration(),
		file.Registration(),
		http.Registration(),
		kubernetes.Registration(),
		process.Registration(),
		relabel.Registration(),
		localfile.Registration(),
		filematch.Registration(),
		exporter.HTTPRegistration(),
		exporter.GRPCRegistration(),
		ebpf.Registration(),
		enrich.Registration(),
		java.Registration(),
		profilerelabel.Registration(),
		receivehttp.Registration(),
		scrape.Registration(),
		write.Registration(),
		remotehttp.Registration(),
		git.Registration(),
		remotekubernetes.ConfigMapRegistration(),
		remotekubernetes.SecretRegistration(),
	)
}
