package scrape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component/pyroscope"
)

// maxProfile bounds the size of a downloaded profile, in bytes.
const maxProfile = 64 << 20

// loop scrapes one endpoint periodically.
type loop struct {
	endpoint endpoint
	interval time.Duration
	timeout  time.Duration
	client   *http.Client
	fanout   *pyroscope.Fanout
	logger   log.Logger
	delta    delta
	cancel   context.CancelFunc

	mu     sync.Mutex
	status status
}

// status is the result of the last request.
type status struct {
	at   time.Time // zero if there was no request yet
	took time.Duration
	err  error

	refused error // why a receiver has not taken the newest profile; nil if all receivers have
}

// scrapeUntilDone scrapes until ctx is done. The first request comes at a point of the interval that depends on the
// endpoint, which spreads the requests.
func (l *loop) scrapeUntilDone(ctx context.Context) {
	timer := time.NewTimer(l.offset(time.Now()))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		timer.Reset(l.interval)
		raw, err := l.scrape(ctx)
		if ctx.Err() != nil {
			return
		}
		refused := l.refusal()
		if raw != nil {
			refused = l.forward(ctx, raw)
		}
		if err != nil {
			level.Error(l.logger).Log("msg", "fetch profile failed", "target", l.endpoint.labels, "err", err)
		}
		l.mu.Lock()
		l.status = status{at: began, took: time.Since(began), err: err, refused: refused}
		l.mu.Unlock()
	}
}

// offset returns how long to wait before the first request.
func (l *loop) offset(now time.Time) time.Duration {
	h := fnv.New64a()
	_, _ = io.WriteString(h, l.endpoint.key()) // never returns an error
	return time.Duration((h.Sum64() - uint64(now.UnixNano())) % uint64(l.interval))
}

// scrape makes one request. The profile is nil if there is no profile to send.
func (l *loop) scrape(ctx context.Context) (raw []byte, err error) {
	raw, err = l.fetch(ctx)
	if err == nil && l.endpoint.kind.cumulative {
		return l.delta.nextProfile(raw)
	}
	return raw, err
}

// refusal returns why a receiver has not taken the newest profile, or nil if all receivers have.
func (l *loop) refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status.refused
}

// forward hands over a profile.
func (l *loop) forward(ctx context.Context, raw []byte) error {
	set := l.endpoint.set
	if l.endpoint.kind.isDelta() {
		b := labels.NewBuilder(set)
		b.Set(pyroscope.LabelNameDelta, "false")
		set = b.Labels()
	}
	err := l.fanout.Appender().Append(ctx, set, []*pyroscope.RawSample{{RawProfile: raw}})
	if err != nil {
		level.Error(l.logger).Log("msg", "push failed", "labels", l.endpoint.labels, "err", err)
	}
	return err
}

// isDelta reports whether a profile of kind k, one of the kinds that programs count from their start, is sent as a
// difference.
func (k kind) isDelta() bool {
	return k.cumulative || k.name == "memory" || k.name == "mutex" || k.name == "block"
}

func (l *loop) fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.endpoint.url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "Headwater")
	response, err := l.client.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the URL, which may contain a password
		}
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProfile+1))
	switch {
	case response.StatusCode != http.StatusOK:
		text := bytes.TrimSpace(body[:min(len(body), 200)])
		return nil, fmt.Errorf("server returned HTTP status %s: %q", response.Status, text)
	case err != nil:
		return nil, fmt.Errorf("reading the profile: %w", err)
	case len(body) == 0:
		return nil, errors.New("empty profile")
	case len(body) > maxProfile:
		return nil, fmt.Errorf("the profile is longer than %d bytes", maxProfile)
	}
	return body, nil
}
