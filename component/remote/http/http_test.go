package http

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/grafana/river"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
)

func decode(t *testing.T, text string) Arguments {
	t.Helper()
	var args Arguments
	require.NoError(t, river.Unmarshal([]byte(text), &args))
	return args
}

func TestPoll(t *testing.T) {
	var content atomic.Value
	content.Store("one\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPut || string(body) != "b" || r.Header.Get("X-A") != "1" ||
			r.Header.Get("Authorization") != "Bearer t" {
			http.Error(w, "no", http.StatusTeapot)
			return
		}
		if content.Load() == "" {
			http.Error(w, "broken", http.StatusBadGateway)
			return
		}
		io.WriteString(w, content.Load().(string))
	}))
	defer server.Close()
	args := decode(t, `
		url            = "`+server.URL+`"
		method         = "PUT"
		body           = "b"
		headers        = {"X-A" = "1"}
		poll_frequency = "20ms"
		poll_timeout   = "19ms"
		is_secret      = true
		client {
			bearer_token = "t"
		}`)
	args.PollTimeout = time.Minute // the machine may be busy
	var mu sync.Mutex
	var last Exports
	exported := func() string { mu.Lock(); defer mu.Unlock(); return last.Content.Value }
	c, err := New(component.Options{Logger: log.NewNopLogger(), OnStateChange: func(e component.Exports) {
		mu.Lock()
		defer mu.Unlock()
		last = e.(Exports)
	}}, args)
	require.NoError(t, err)
	require.Equal(t, "one", exported(), "in Build, without the line end")
	require.True(t, last.Content.IsSecret)

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	content.Store("two")
	require.Eventually(t, func() bool { return exported() == "two" }, 2*time.Minute, time.Millisecond)
	content.Store("")
	require.Eventually(t, func() bool { return c.CurrentHealth().Health == component.HealthTypeUnhealthy }, 2*time.Minute,
		time.Millisecond)
	require.Contains(t, c.CurrentHealth().Message, "502")
	require.Equal(t, "two", exported())
	content.Store("three")
	require.Eventually(t, func() bool { return exported() == "three" }, 2*time.Minute, time.Millisecond)

	args.Method = "GET"
	require.NoError(t, c.Update(args))
	require.Eventually(t, func() bool { return c.CurrentHealth().Health == component.HealthTypeUnhealthy }, 2*time.Minute,
		time.Millisecond)
	cancel()
	require.NoError(t, <-done)
}

func TestBuildFails(t *testing.T) {
	_, err := New(component.Options{}, decode(t, `url = "http://user:secret@127.0.0.1:1/"`))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

func TestArguments(t *testing.T) {
	args := decode(t, `url = "http://h"`)
	require.Equal(t, time.Minute, args.PollFrequency)
	require.Equal(t, 10*time.Second, args.PollTimeout)
	require.Equal(t, "GET", args.Method)
	require.True(t, args.Client.HTTP.FollowRedirects && args.Client.HTTP.EnableHTTP2)
	for text, want := range map[string]string{
		``:                    "url",
		`url = "/x"`:          "must be absolute",
		`url = "http://:x:y"`: "not a valid URL",
		"url = \"http://h\"\npoll_timeout = \"1m\"":          "poll_timeout must be less than poll_frequency",
		"url = \"http://h\"\npoll_frequency = \"0s\"":        "poll_frequency must be greater",
		"url = \"http://h\"\npoll_timeout = \"0s\"":          "poll_timeout must be greater",
		"url = \"http://h\"\nmethod = \"A B\"":               "invalid method",
		"url = \"http://h\"\nheaders = {\"a b\" = \"\"}":     "not the name of an HTTP header",
		"url = \"http://h\"\nclient {\n no_proxy = \"x\"\n}": "proxy_url must also be configured",
	} {
		var args Arguments
		require.ErrorContains(t, river.Unmarshal([]byte(text), &args), want, text)
	}
}
