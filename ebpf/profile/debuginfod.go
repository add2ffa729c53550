package profile

import (
	"reflect"
	"sync"

	"github.com/headwater/headwater/ebpf/symbol"
	"github.com/headwater/headwater/ebpf/symbol/debuginfod"
)

// debuginfodClient is the client in use, if any.
type debuginfodClient struct {
	mu      sync.Mutex
	options debuginfod.Options
	client  *debuginfod.Client
}

// prepare returns a client to pass to use: the current client if the options are unchanged, nil for options without
// URLs.
func (d *debuginfodClient) prepare(o debuginfod.Options) (*debuginfod.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if reflect.DeepEqual(o, d.options) {
		return d.client, nil
	}
	if len(o.URLs) == 0 {
		return nil, nil
	}
	return debuginfod.New(o)
}

// discard closes a client from prepare that will not be used.
func (d *debuginfodClient) discard(prepared *debuginfod.Client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if prepared != nil && prepared != d.client {
		prepared.Close()
	}
}

// useClient replaces the current client by a client from prepare.
func (d *debuginfodClient) useClient(prepared *debuginfod.Client, o debuginfod.Options, s *symbol.Symbolizer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.client
	d.client, d.options = prepared, o
	if prepared == old {
		return
	}
	if prepared != nil {
		s.SetFetcher(prepared)
	} else {
		s.SetFetcher(nil)
	}
	if old != nil {
		old.Close()
	}
}

func (d *debuginfodClient) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client != nil {
		d.client.Close()
		d.client = nil
	}
}
