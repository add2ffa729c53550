package write

import (
	"context"
	"errors"
	"fmt"
	"time"

	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope/limits"
)

// CheckURL returns an error if profiles cannot be pushed to a URL. It does not contact the server.
func CheckURL(url string) error {
	if _, err := parseEndpointURL(url); err != nil {
		return component.Refuse("url", "%s", err)
	}
	return nil
}

// CheckLabels returns an error if [Once] cannot push with the labels.
func CheckLabels(of map[string]string) error {
	_, err := pushLabels(labels.FromMap(of), nil)
	return err
}

func onceOptions(url string) EndpointOptions {
	var o EndpointOptions
	o.SetToDefault()
	o.URL = url
	return o
}

// Once pushes one profile, gzipped or not, and waits until it has arrived. It splits a profile that exceeds Pyroscope's
// limits. It retries a request three times if the server did not answer, or answered with a server error.
func Once(ctx context.Context, url string, of map[string]string, profile []byte) error {
	o := onceOptions(url)
	c, err := newClient(settings{opts: &o}, nil)
	if err != nil {
		return err
	}
	defer c.close()
	if c.broken != nil {
		return fmt.Errorf("endpoint: url %w", c.broken)
	}
	pairs, err := pushLabels(labels.FromMap(of), nil)
	if err != nil {
		return err
	}
	parts, err := limits.Server().Split(profile, time.Now())
	if err != nil {
		return err
	}
	for _, part := range parts {
		it := &item{size: len(part), taken: time.Now(), push: &pushv1.PushRequest{Series: []*pushv1.RawProfileSeries{{
			Labels: pairs, Samples: []*pushv1.RawSample{{RawProfile: part}},
		}}}}
		if err := c.sendPatiently(ctx, it); err != nil {
			return fmt.Errorf("push to %s: %w", endpointName(&o), err)
		}
	}
	return nil
}

// sendPatiently retries errors that may be temporary.
func (c *client) sendPatiently(ctx context.Context, it *item) error {
	const attempts = 4
	wait := c.opts.MinBackoff
	for attempt := 1; ; attempt++ {
		answer, err := c.sendItem(ctx, it)
		refused := answer.status >= 400 && answer.status < 500
		if err == nil || refused || attempt == attempts {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(wait):
			wait *= 2
		}
	}
}
