package exporter

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/grafana/river/parser"
	"github.com/grafana/river/vm"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/otelcol"
)

func decode(t *testing.T, text string, into any) error {
	t.Helper()
	file, err := parser.ParseFile("c.river", []byte(text))
	require.NoError(t, err)
	return vm.New(file).Evaluate(nil, into)
}

// exporterOf builds a component and returns it with its export.
func exporterOf(t *testing.T, arguments component.Arguments) (*Component, otelcol.Consumer) {
	t.Helper()
	var exported otelcol.ConsumerExports
	built, err := build(component.Options{
		Logger: log.NewNopLogger(), Registerer: prometheus.NewRegistry(),
		OnStateChange: func(e component.Exports) { exported = e.(otelcol.ConsumerExports) },
	}, arguments)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- built.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	return built.(*Component), exported.Input
}

func spans(name string) []sdktrace.ReadOnlySpan {
	return tracetest.SpanStubs{{Name: name, StartTime: time.Now(), EndTime: time.Now()}}.Snapshots()
}

func namesIn(request *collector.ExportTraceServiceRequest) (names []string) {
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, span := range scope.Spans {
				names = append(names, span.Name)
			}
		}
	}
	return names
}

func TestHTTP(t *testing.T) {
	var mu sync.Mutex
	var names []string
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path != "/v1/traces" || r.Header.Get("X-Key") != "k" || r.Header.Get("Content-Encoding") != "gzip" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		body, err := gzip.NewReader(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		text, err := io.ReadAll(body)
		var request collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(text, &request) != nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		names = append(names, namesIn(&request)...)
		w.WriteHeader(status)
	}))
	defer server.Close()
	var arguments HTTPArguments
	require.NoError(t, decode(t, `client {
		endpoint = "`+server.URL+`/"
		headers  = {"X-Key" = "k"}
		write_buffer_size = "512KiB"
	}
	sending_queue { enabled = false }
	retry_on_failure { enabled = false }`, &arguments))
	c, input := exporterOf(t, arguments)
	require.NoError(t, input.ExportSpans(context.Background(), spans("a")))
	require.Equal(t, component.HealthTypeHealthy, c.CurrentHealth().Health)

	mu.Lock()
	require.Equal(t, []string{"a"}, names)
	status = http.StatusBadRequest
	mu.Unlock()
	require.Error(t, input.ExportSpans(context.Background(), spans("b")))
	require.Equal(t, component.HealthTypeUnhealthy, c.CurrentHealth().Health)
	mu.Lock()
	status = http.StatusOK
	mu.Unlock()
	arguments.Client.Compression = "none" // the server wants gzip
	require.NoError(t, c.Update(arguments))
	require.ErrorContains(t, input.ExportSpans(context.Background(), spans("c")), "418")
}

type grpcCollector struct {
	collector.UnimplementedTraceServiceServer
	requests chan *collector.ExportTraceServiceRequest
	keys     chan []string
}

func (g *grpcCollector) Export(ctx context.Context,
	request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	given, _ := metadata.FromIncomingContext(ctx)
	g.requests <- request
	g.keys <- given.Get("x-key")
	return &collector.ExportTraceServiceResponse{}, nil
}

func TestGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	g := &grpcCollector{requests: make(chan *collector.ExportTraceServiceRequest, 1), keys: make(chan []string, 1)}
	collector.RegisterTraceServiceServer(server, g)
	go func() { _ = server.Serve(listener) }() // until Stop
	defer server.Stop()

	var arguments GRPCArguments
	require.NoError(t, decode(t, `timeout = "30s"
	client {
		endpoint = "`+listener.Addr().String()+`"
		headers  = {"x-key" = "k"}
		tls { insecure = true }
	}`, &arguments))
	_, input := exporterOf(t, arguments)
	require.NoError(t, input.ExportSpans(context.Background(), spans("a")))
	require.Equal(t, []string{"a"}, namesIn(<-g.requests))
	require.Equal(t, []string{"k"}, <-g.keys)
}

func TestArguments(t *testing.T) {
	for _, test := range [][2]string{
		{`client { endpoint = "http://127.0.0.1:4318" }`, ""},
		{`client { }`, "at least one endpoint must be specified"},
		{`client { endpoint = "127.0.0.1:4318" }`, "client.endpoint must be a URL that starts with http:// or https://"},
		{"traces_endpoint = \"x\"\nclient { }", "traces_endpoint must be a URL that starts with http:// or https://"},
		{"client {\nendpoint = \"http://a\"\ncompression = \"zstd\"\n}",
			`client.compression must be gzip or none, got "zstd": the SDK has no other`},
		{"encoding = \"json\"\nclient { endpoint = \"http://a\" }",
			"encoding must be proto; the SDK does not encode spans as JSON"},
		{"client {\nendpoint = \"http://a\"\ntimeout = \"0s\"\n}", "client.timeout must be longer than 0s"},
	} {
		text, want := test[0], test[1]
		var arguments HTTPArguments
		err := decode(t, text, &arguments)
		if want == "" {
			require.NoError(t, err)
			require.True(t, arguments.Retry.Enabled)
			require.Equal(t, "http://127.0.0.1:4318/v1/traces", arguments.endpointURL())
		} else {
			require.EqualError(t, err, want)
		}
	}
	var arguments GRPCArguments
	require.EqualError(t, decode(t, `client { }`, &arguments), "client.endpoint must be the host and port of a collector")
	require.NoError(t, decode(t, "client {\nendpoint = \"a:1\"\ntls { ca_file = \"nowhere\" }\n}", &arguments))
	_, err := build(component.Options{Logger: log.NewNopLogger(), Registerer: prometheus.NewRegistry()}, arguments)
	require.ErrorContains(t, err, "nowhere")
}

func TestNewestArguments(t *testing.T) {
	var arguments HTTPArguments
	require.NoError(t, decode(t, `
client {
	endpoint                = "https://127.0.0.1:4318"
	proxy_url               = "http://127.0.0.1:3128"
	force_attempt_http2     = true
	http2_ping_timeout      = "3s"
	http2_read_idle_timeout = "5s"

	compression_params {
		level = 3
	}

	cookies {
		enabled = false
	}

	tls {
		min_version                    = "1.2"
		max_version                    = "1.3"
		cipher_suites                  = ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
		curve_preferences              = ["X25519"]
		reload_interval                = "1m"
		include_system_ca_certs_pool   = true
		include_insecure_cipher_suites = false
	}
}

sending_queue {
	enabled           = true
	num_consumers     = 2
	queue_size        = 100
	sizer             = "requests"
	block_on_overflow = true

	batch {
		min_size = 1
	}
}`, &arguments))
	config, err := arguments.Client.TLS.config()
	require.NoError(t, err)
	require.Equal(t, uint16(tls.VersionTLS12), config.MinVersion)
	require.Equal(t, uint16(tls.VersionTLS13), config.MaxVersion)
	require.Equal(t, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}, config.CipherSuites)

	require.ErrorContains(t, decode(t, "client {\nendpoint = \"http://a\"\ntls { min_version = \"2\" }\n}", &arguments),
		"unknown TLS version")
	_, err = (&TLS{CipherSuites: []string{"X"}}).config()
	require.EqualError(t, err, `unknown cipher "X"`)
	_, err = (&TLS{CA: "no PEM", SystemCAs: true}).config()
	require.Error(t, err)
}

// TestSystemCAs demands that the configured CA is trusted as well as the system's.
func TestSystemCAs(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	config, err := (&TLS{CA: ca, SystemCAs: true}).config()
	require.NoError(t, err)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	response, err := client.Get(server.URL)
	require.NoError(t, err)
	response.Body.Close()
}

func TestProxy(t *testing.T) {
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked <- r.URL.String() }))
	defer proxy.Close()
	var arguments HTTPArguments
	require.NoError(t,
		decode(t, "client {\nendpoint = \"http://collector.invalid\"\nproxy_url = \""+proxy.URL+"\"\n}", &arguments))
	_, consumer := exporterOf(t, arguments)
	require.NoError(t, consumer.ExportSpans(context.Background(), spans("x")))
	require.Equal(t, "http://collector.invalid/v1/traces", <-asked)
}
