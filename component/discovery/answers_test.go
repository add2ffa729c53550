package discovery

import (
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// endless answers with a body of that many zeros.
type endless int64

func (e endless) RoundTrip(*http.Request) (*http.Response, error) {
	body := io.NopCloser(io.LimitReader(zeros{}, int64(e)))
	return &http.Response{StatusCode: http.StatusOK, ContentLength: -1, Body: body}, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestBoundedAnswers reads answers that are as long as they may be, and longer ones.
func TestBoundedAnswers(t *testing.T) {
	for _, test := range []struct {
		query       string
		bytes, want int64
		err         string
	}{
		{"", MaxAnswer, MaxAnswer, ""},
		{"", MaxAnswer + 1, MaxAnswer, "answer of server:80 is longer than 256 MiB"},
		{"watch=true", MaxAnswer + 1, MaxAnswer + 1, ""},
		{"watch=true", 2 * MaxWatch, MaxWatch, "answer of server:80 is longer than 1024 MiB"},
	} {
		client := &http.Client{Transport: bounded{endless(test.bytes)}}
		u := url.URL{Scheme: "http", Host: "server:80", RawQuery: test.query}
		response, err := client.Get(u.String())
		require.NoError(t, err)
		n, err := io.Copy(io.Discard, response.Body)
		require.Equal(t, test.want, n, test)
		if test.err == "" {
			require.NoError(t, err, test)
			continue
		}
		require.EqualError(t, err, test.err)
	}
}

// owner has clients as discoverers have them: not exported, by pointers and interfaces, and
// in a circle.
type owner struct {
	inner any
	same  *http.Client
	next  *owner
}

func TestFindClients(t *testing.T) {
	one, two := &http.Client{}, &http.Client{}
	o := &owner{inner: &owner{same: two}, same: one}
	o.next = o
	require.Equal(t, 2, boundAnswers(o))
	require.IsType(t, bounded{}, one.Transport)
	require.IsType(t, bounded{}, two.Transport)
	require.Zero(t, boundAnswers(&owner{same: http.DefaultClient}))
	require.Nil(t, http.DefaultClient.Transport)
}
