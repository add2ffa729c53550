// Package debuginfod fetches separate debug files by build ID from debuginfod
// servers (elfutils; debuginfod(8), "WEBAPI"), in the background, into a folder of
// bounded size.
package debuginfod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Defaults of Options.
const (
	DefaultCacheSize = 1 << 30
	DefaultTimeout   = 90 * time.Second
)

// Options configure a Client.
type Options struct {
	URLs      []string      // servers, in the order of requests; at least one
	CacheDir  string        // folder of downloaded files; "": DefaultCacheDir
	CacheSize int64         // bytes on disk; the least recently used files are removed first; 0: DefaultCacheSize
	Timeout   time.Duration // maximum time without data from a server; 0: DefaultTimeout
}

// FromEnvironment returns the servers in DEBUGINFOD_URLS, which are separated by spaces, or nil if it is not set. It
// ignores other words, such as "ima:enforcing" and "file://".
func FromEnvironment() []string {
	var servers []string
	for _, word := range strings.Fields(os.Getenv("DEBUGINFOD_URLS")) {
		if strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://") {
			servers = append(servers, word)
		}
	}
	return servers
}

// DefaultCacheDir returns $DEBUGINFOD_CACHE_PATH, or a folder for Headwater in the user's cache folder, or in
// /var/cache for services, which have no home.
func DefaultCacheDir() string {
	if dir := os.Getenv("DEBUGINFOD_CACHE_PATH"); dir != "" {
		return dir
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "headwater", "debuginfod")
	}
	return "/var/cache/headwater/debuginfod"
}

// Validate returns an error that describes an invalid option, or nil.
func (o Options) Validate() error {
	for _, s := range o.URLs {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("%q is no http or https URL", s)
		}
	}
	if o.CacheSize < 0 {
		return fmt.Errorf("cache size must not be negative, got %d", o.CacheSize)
	}
	if o.Timeout < 0 {
		return fmt.Errorf("timeout must not be negative, got %s", o.Timeout)
	}
	return nil
}

// Limits of a Client.
const (
	maxWaiting  = 1024             // waiting requests; more are rejected, and asked again later
	MaxFile     = 4 << 30          // bytes of one file
	notFoundFor = 10 * time.Minute // how long a server's "no" is valid
	failedFor   = time.Minute      // how long a failure is valid
)

// Client fetches debug files. Its methods may be called concurrently and do not
// wait for the network.
type Client struct {
	options Options
	http    *http.Client
	cancel  context.CancelFunc
	ended   sync.WaitGroup
	queue   chan string

	mu    sync.Mutex
	state map[string]state // by build ID
	stats Stats
}

// state is the state of one build ID without a file; the files are in the folder.
type state struct {
	waiting bool
	until   time.Time // not requested again before
	err     error     // the reason why there is no file
}

// Stats are counters since the Client started.
type Stats struct {
	Downloaded uint64 // files
	Bytes      uint64
	NotFound   uint64 // build IDs that no server has
	Failed     uint64 // requests that failed for other reasons
}

// ErrNotFound reports that no server has the file.
var ErrNotFound = errors.New("no debuginfod server has it")

// errPending reports that there is no answer yet.
var errPending = errors.New("requested from debuginfod")

// New returns a Client that downloads one file at a time until Close.
func New(o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.CacheDir == "" {
		o.CacheDir = DefaultCacheDir()
	}
	if o.CacheSize == 0 {
		o.CacheSize = DefaultCacheSize
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if err := os.MkdirAll(o.CacheDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the cache of debug files: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{options: o, http: &http.Client{}, cancel: cancel, queue: make(chan string, maxWaiting),
		state: map[string]state{}}
	c.ended.Add(1)
	go c.fetchFiles(ctx)
	return c, nil
}

// Close stops downloads. Downloaded files stay.
func (c *Client) Close() {
	c.cancel()
	c.ended.Wait()
	c.http.CloseIdleConnections()
}

// Path returns the debug file of a build ID, in hex. If it is not in the folder, Path requests it in the background,
// unless a server recently did not have it, and returns the reason: ErrNotFound, or another error.
func (c *Client) Path(buildID string) (string, error) {
	if !valid(buildID) {
		return "", fmt.Errorf("build ID %.100q is not hexadecimal", buildID)
	}
	path := c.pathOf(buildID)
	if _, err := os.Stat(path); err == nil {
		now := time.Now()
		os.Chtimes(path, now, now) // in use: remove it last
		return path, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state[buildID]
	if s.waiting || time.Now().Before(s.until) {
		return "", s.err
	}
	select {
	case c.queue <- buildID:
		c.state[buildID] = state{waiting: true, err: errPending}
	default:
	}
	return "", errPending
}

// Stats returns the present counters.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// valid reports whether a build ID can be part of a URL and of a path.
func valid(buildID string) bool {
	return len(buildID) >= 4 && len(buildID) <= 128 && strings.Trim(buildID, "0123456789abcdef") == ""
}

// pathOf returns the path of a file in the folder, in the same layout as elfutils' own client.
func (c *Client) pathOf(buildID string) string {
	return filepath.Join(c.options.CacheDir, buildID, "debuginfo")
}

func (c *Client) fetchFiles(ctx context.Context) {
	defer c.ended.Done()
	for {
		select {
		case <-ctx.Done():
			return
		case buildID := <-c.queue:
			n, err := c.fetch(ctx, buildID)
			c.answered(buildID, n, err)
		}
	}
}

// MaxStates bounds the remembered build IDs without a file.
const MaxStates = 1 << 16

func (c *Client) answered(buildID string, n int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := state{err: err}
	switch {
	case err == nil:
		c.stats.Downloaded++
		c.stats.Bytes += uint64(n)
		delete(c.state, buildID)
		return
	case errors.Is(err, ErrNotFound):
		c.stats.NotFound++
		s.until = time.Now().Add(notFoundFor)
	default:
		c.stats.Failed++
		s.until = time.Now().Add(failedFor)
	}
	if len(c.state) >= MaxStates {
		clear(c.state)
	}
	c.state[buildID] = s
}

// fetch asks the servers in order. It returns the failure of a server only if no server has the file.
func (c *Client) fetch(ctx context.Context, buildID string) (int64, error) {
	var failed error
	for _, server := range c.options.URLs {
		n, err := c.fetchFrom(ctx, server, buildID)
		if err == nil {
			return n, nil
		}
		if !errors.Is(err, ErrNotFound) {
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		return 0, failed
	}
	return 0, ErrNotFound
}

func (c *Client) fetchFrom(ctx context.Context, server, buildID string) (int64, error) {
	target := strings.TrimRight(server, "/") + "/buildid/" + buildID + "/debuginfo"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(c.options.Timeout, cancel)
	defer silent.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return 0, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, fmt.Errorf("ask debuginfod: %w", err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotFound:
		return 0, ErrNotFound
	case response.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("ask debuginfod: %s: %s", target, response.Status)
	}
	alive := readerFunc(func(p []byte) (int, error) {
		silent.Reset(c.options.Timeout)
		return response.Body.Read(p)
	})
	if err := c.makeRoom(max(response.ContentLength, 0)); err != nil {
		return 0, err
	}
	n, err := c.store(buildID, alive, response.ContentLength)
	if err != nil {
		return 0, fmt.Errorf("download %s: %w", target, err)
	}
	return n, c.makeRoom(0)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// store writes a complete file or none.
func (c *Client) store(buildID string, body io.Reader, length int64) (int64, error) {
	path := c.pathOf(buildID)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return 0, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "download-*")
	if err != nil {
		return 0, err
	}
	limit := min(MaxFile, c.options.CacheSize)
	n, err := io.Copy(f, io.LimitReader(body, limit+1))
	switch {
	case err != nil:
	case n > limit:
		err = fmt.Errorf("exceeds %d bytes, the size of the cache", limit)
	case length >= 0 && n != length:
		err = io.ErrUnexpectedEOF
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		os.Remove(filepath.Dir(path)) // only if it is empty
	}
	return n, err
}
