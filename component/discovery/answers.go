package discovery

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Bounds of a server's answer, in bytes. A Kubernetes watch streams changes for some minutes; a watch that exceeds its
// bound is started again.
const (
	MaxAnswer = 256 << 20
	MaxWatch  = 1 << 30
)

// boundAnswers limits how much of one answer a discoverer's HTTP clients read, and returns the number of clients.
// Prometheus' discoverers make their clients themselves and do not expose them, so boundAnswers finds them by
// reflection.
func boundAnswers(discoverer any) (clients int) {
	s := clientSearch{seen: map[pointer]bool{}}
	s.visit(reflect.ValueOf(discoverer), 0)
	for _, c := range s.found {
		c.Transport = bounded{c.Transport}
	}
	return len(s.found)
}

// clientSearch finds HTTP clients in the values of packages that make requests.
type clientSearch struct {
	seen  map[pointer]bool // pointers visited so far
	found []*http.Client
}

type pointer struct {
	reflect.Type
	addr uintptr
}

// Packages whose values are searched for clients, and the depth of the search.
var clientPackages = []string{
	"github.com/headwater/headwater/component/discovery", "github.com/prometheus/prometheus/discovery",
	"github.com/moby/moby/client", "k8s.io/client-go/",
}

const maxClientDepth = 16

func (s *clientSearch) visit(v reflect.Value, depth int) {
	if depth > maxClientDepth {
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		s.visit(v.Elem(), depth+1)
	case reflect.Pointer:
		at := pointer{v.Type(), v.Pointer()}
		if v.IsNil() || s.seen[at] {
			return
		}
		s.seen[at] = true
		s.visitPointer(v, depth)
	case reflect.Struct:
		if !mayHaveClients(v.Type()) {
			return
		}
		for i := range v.NumField() {
			s.visit(v.Field(i), depth+1)
		}
	}
}

func (s *clientSearch) visitPointer(v reflect.Value, depth int) {
	// The value of a field that is not exported cannot be used directly.
	switch p := reflect.NewAt(v.Type().Elem(), v.UnsafePointer()).Interface().(type) {
	case *http.Client:
		if p == http.DefaultClient { // shared by the whole process
			return
		}
		s.found = append(s.found, p)
	case interface{ CoreV1() corev1.CoreV1Interface }: // its other groups use the same client
		s.visit(reflect.ValueOf(p.CoreV1().RESTClient()), depth+1)
	default:
		s.visit(v.Elem(), depth+1)
	}
}

func mayHaveClients(t reflect.Type) bool {
	for _, prefix := range clientPackages {
		if strings.HasPrefix(t.PkgPath(), prefix) {
			return true
		}
	}
	return false
}

// bounded is a transport that ends an answer with an error when the answer exceeds its bound.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	next := b.next
	if next == nil {
		next = http.DefaultTransport
	}
	response, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	most := int64(MaxAnswer)
	if r.URL.Query().Has("watch") {
		most = MaxWatch
	}
	body := &boundedBody{ReadCloser: response.Body, server: r.URL.Host, most: most, left: most}
	if response.ContentLength > most {
		response.Body.Close()
		return nil, body.tooLong()
	}
	response.Body = body
	return response, nil
}

type boundedBody struct {
	io.ReadCloser
	server     string
	most, left int64
}

func (b *boundedBody) tooLong() error {
	return fmt.Errorf("answer of %s is longer than %d MiB", b.server, b.most>>20)
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, b.tooLong()
	}
	// Read one byte past the bound to find out whether the answer is longer.
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return n - 1, b.tooLong()
	}
	return n, err
}
