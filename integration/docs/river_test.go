package docs

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/all"
	"github.com/headwater/headwater/component/otelcol"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/river"
)

// TestRiver: each piece of River in the documents is a complete configuration that the runtime loads: names, types and
// references are correct. The components do no work.
func TestRiver(t *testing.T) {
	registry := passiveComponents(t)
	etc := writeCertificate(t)
	found := 0
	for _, d := range documents(t) {
		for _, f := range d.fences {
			if f.language != "river" {
				continue
			}
			found++
			t.Run(fmt.Sprintf("%s:%d", d.path, f.line), func(t *testing.T) {
				require.NoError(t, load(t, registry, strings.ReplaceAll(f.text, "/etc/headwater", etc)))
				formatted, err := river.Format("x.river", []byte(f.text))
				require.NoError(t, err)
				require.Equal(t, string(formatted), f.text, "as headwater fmt writes it")
			})
		}
	}
	require.Greater(t, found, 20)
	require.Error(t, load(t, registry, `pyroscope.ebpf "x" { forward_to = [pyroscope.write.none.receiver] }`))
	require.Error(t, load(t, registry, `pyroscope.ebpf "x" { forward_two = [] }`))
}

// TestOptionsExample: options.river has each argument and block of pyroscope.ebpf that has an effect. The tables of the
// page are compared with the code.
func TestOptionsExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "river/examples/options.river"))
	require.NoError(t, err)
	names := 0
	for _, table := range readDocument(t, componentPages+"pyroscope.ebpf.md").tables() {
		kind := table.header[0]
		if kind != "argument" && kind != "block" || slices.Contains(table.section, "Accepted without effect") {
			continue
		}
		for _, cells := range table.rows {
			if !strings.Contains(cells[len(cells)-1], "has no effect") {
				names++
				require.Regexp(t, `(?m)^\s*`+strings.Trim(cells[0], "`")+`\s*[={]`, string(text))
			}
		}
	}
	require.Greater(t, names, 30)
}

// load loads a configuration.
func load(t testing.TB, registry component.Registry, text string) error {
	t.Helper()
	source, err := river.Parse(map[string][]byte{"x.river": []byte(text)})
	if err != nil {
		return readable(err)
	}
	runtime := river.New(river.Options{Registry: registry, Logger: river.NewLogger(io.Discard), DataPath: t.TempDir()})
	return readable(runtime.Load(source))
}

// readable returns the error with the text that it is about.
func readable(err error) error {
	var failed *river.LoadError
	if !errors.As(err, &failed) {
		return err
	}
	var text bytes.Buffer
	_ = failed.Fprint(&text, false) // to memory
	return errors.New(text.String())
}

// passiveComponents returns all components without their work: they take their arguments and export receivers that drop
// all profiles.
func passiveComponents(t testing.TB) component.Registry {
	t.Helper()
	return builtBy(t, func(registration component.Registration) build {
		return func(opts component.Options, _ component.Arguments) (component.Component, error) {
			if exports := registration.Exports; exports != nil {
				opts.OnStateChange(passiveExports(exports))
			}
			return idle{}, nil
		}
	})
}

// build is the type of a registration's Build.
type build = func(component.Options, component.Arguments) (component.Component, error)

// builtBy returns all components, each built by what replace makes of its registration.
func builtBy(t testing.TB, replace func(component.Registration) build) component.Registry {
	t.Helper()
	registry, err := all.Registry()
	require.NoError(t, err)
	var changed []component.Registration
	for _, name := range registry.Names() {
		registration, _ := registry.Get(name)
		altered := registration
		altered.Build = replace(registration)
		changed = append(changed, altered)
	}
	registry, err = component.NewRegistry(changed...)
	require.NoError(t, err)
	return registry
}

// passiveExports returns exports of the same type with receivers and consumers in them.
func passiveExports(exports component.Exports) component.Exports {
	v := reflect.New(reflect.TypeOf(exports)).Elem()
	for i := range v.NumField() {
		switch field := v.Field(i); field.Type() {
		case reflect.TypeFor[pyroscope.Appendable]():
			field.Set(reflect.ValueOf(pyroscope.NoopAppendable{}))
		case reflect.TypeFor[otelcol.Consumer]():
			field.Set(reflect.ValueOf(deaf{}))
		}
	}
	return v.Interface()
}

// idle is a component.
type idle struct{}

func (idle) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (idle) Update(component.Arguments) error { return nil }

// deaf is a consumer that drops everything.
type deaf struct{}

func (deaf) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }

// writeCertificate writes tls.crt and tls.key to a folder of their own.
func writeCertificate(t testing.TB) (folder string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	certificate := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	require.NoError(t, err)
	folder = t.TempDir()
	for name, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]},
		"tls.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600))
	}
	return folder
}
