package flamegraph

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"
)

// driverMutex is held while google/pprof's driver starts: the driver then sets variables of its package
// (interactiveMode, currentCfg), which later requests only read.
var driverMutex sync.Mutex

// pprofHandlers returns the views of google/pprof's web interface for p, by path.
// p must not be modified afterwards.
//
// The driver is actually a command line program. Its flags and plug-ins keep it away from the network, from files and
// from the terminal.
func pprofHandlers(p *profile.Profile) (map[string]http.Handler, error) {
	driverMutex.Lock()
	defer driverMutex.Unlock()
	defer provideConfigDir()()

	var handlers map[string]http.Handler
	err := driver.PProf(&driver.Options{
		Writer:        noFiles{},
		Flagset:       webFlags{},
		Fetch:         fixedProfile{p},
		Sym:           noSymbols{},
		Obj:           noObjects{},
		UI:            silentUI{},
		HTTPTransport: noNetwork{},
		HTTPServer: func(args *driver.HTTPServerArgs) error {
			handlers = args.Handlers
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("starting pprof's web interface: %w", err)
	}
	return handlers, nil
}

// provideConfigDir makes sure that os.UserConfigDir succeeds: pprof refuses to start without a directory for its
// settings, and a service has no home. The settings file is never written, since the handlers that would write it are
// not served. The returned function restores the environment.
func provideConfigDir() func() {
	if _, err := os.UserConfigDir(); err == nil {
		return func() {}
	}
	const name = "XDG_CONFIG_HOME"
	old, was := os.LookupEnv(name)
	os.Setenv(name, "/nonexistent")
	return func() {
		if was {
			os.Setenv(name, old)
		} else {
			os.Unsetenv(name)
		}
	}
}

// webFlags are the flags of `pprof -http=127.0.0.1:0 -no_browser -symbolize=none profile`. The driver does not listen
// on the address: the HTTPServer plug-in replaces the server.
type webFlags struct{}

func (webFlags) Bool(name string, def bool, _ string) *bool {
	if name == "no_browser" {
		def = true
	}
	return &def
}

func (webFlags) String(name string, def string, _ string) *string {
	switch name {
	case "http":
		def = "127.0.0.1:0"
	case "symbolize":
		def = "none"
	}
	return &def
}

func (webFlags) Int(_ string, def int, _ string) *int             { return &def }
func (webFlags) Float64(_ string, def float64, _ string) *float64 { return &def }
func (webFlags) StringList(_, _ string, _ string) *[]*string      { return &[]*string{} }
func (webFlags) ExtraUsage() string                               { return "" }
func (webFlags) AddExtraUsage(string)                             {}
func (webFlags) Parse(func()) []string                            { return []string{"profile"} }

// fixedProfile is a source that holds one profile. An empty address says to the
// driver that the profile is not remote, so that it saves no copy.
type fixedProfile struct{ p *profile.Profile }

func (f fixedProfile) Fetch(string, time.Duration, time.Duration) (*profile.Profile, string, error) {
	return f.p, "", nil
}

// errOff is the error of the disabled plug-ins.
var errOff = errors.New("not available in this page")

type noFiles struct{}

func (noFiles) Open(string) (io.WriteCloser, error) { return nil, errOff }

type noSymbols struct{}

func (noSymbols) Symbolize(string, driver.MappingSources, *profile.Profile) error { return nil }

type noObjects struct{}

func (noObjects) Open(string, uint64, uint64, uint64, string) (driver.ObjFile, error) {
	return nil, errOff
}

func (noObjects) Disasm(string, uint64, uint64, bool) ([]driver.Inst, error) { return nil, errOff }

type noNetwork struct{}

func (noNetwork) RoundTrip(*http.Request) (*http.Response, error) { return nil, errOff }

// silentUI drops pprof's messages: errors of a request are also in its answer.
type silentUI struct{}

var _ driver.UI = silentUI{}

func (silentUI) ReadLine(string) (string, error)     { return "", io.EOF }
func (silentUI) Print(...interface{})                {}
func (silentUI) PrintErr(...interface{})             {}
func (silentUI) IsTerminal() bool                    { return false }
func (silentUI) WantBrowser() bool                   { return false }
func (silentUI) SetAutoComplete(func(string) string) {}
