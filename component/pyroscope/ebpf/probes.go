package ebpf

import (
	"slices"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/ebpf/source/probe"
)

// links returns all links of probes, and the attribute of each.
func (a *Settings) links() (attributes, links []string) {
	for _, link := range a.UProbeLinks {
		attributes, links = append(attributes, "u_probe_links"), append(links, "uprobe:"+link)
	}
	for _, link := range a.ProbeLinks {
		attributes, links = append(attributes, "probe_links"), append(links, link)
	}
	return attributes, links
}

// validateProbes returns an error that names the attribute and the link that cannot be parsed. Whether the target of a
// link exists is checked later, because it may appear and disappear.
func (a *Settings) validateProbes() error {
	attributes, links := a.links()
	for i, link := range links {
		if _, err := probe.Parse(link); err != nil {
			return component.Refuse(attributes[i], "has an invalid link %q: %v", link, err)
		}
		if slices.Contains(links[:i], link) {
			return component.Refuse(attributes[i], "has the link %q twice", link)
		}
	}
	return nil
}

// probes returns the probes of the links.
func (a *Settings) probes() (out []probe.Probe) {
	_, links := a.links()
	for _, link := range links {
		if p, err := probe.Parse(link); err == nil { // Validate has refused invalid links
			out = append(out, p)
		}
	}
	return out
}
