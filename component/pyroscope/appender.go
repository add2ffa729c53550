// Package pyroscope is how components hand profiles to each other. It has the
// shape of Grafana Agent v0.40's package of the same name: what River calls a
// ProfilesReceiver is an Appendable.
package pyroscope

import (
	"context"
	"errors"
	"net/url"

	"github.com/prometheus/prometheus/model/labels"
)

// LabelNameDelta is a label whose value "false" says to Pyroscope that a profile's values are
// already differences to the profile before it.
const LabelNameDelta = "__delta__"

// RawSample is one profile as it is sent.
type RawSample struct {
	ID         string // of the profile, as whoever made it named it; may be ""
	RawProfile []byte // gzipped or plain protobuf of profile.proto; never changed once handed over
}

// IncomingProfile is a profile as a client sent it to Pyroscope's older API, POST
// /ingest, in whatever format that client uses. It is passed on as it is and never
// changed.
type IncomingProfile struct {
	RawBody     []byte   // of the request
	ContentType []string // the values of its header Content-Type, which says the format
	URL         *url.URL // of the request: its path and query are sent on, except the query's "name"
	Labels      labels.Labels
}

// Appendable is a receiver of profiles. It is what River calls a
// ProfilesReceiver.
type Appendable interface {
	// Appender returns a way in that is used for one or more profiles and then
	// dropped. It does not block and is not nil.
	Appender() Appender
}

// Appender takes profiles.
type Appender interface {
	// Append hands over profiles of one label set. The receiver keeps samples
	// and labels, so the caller must not change them afterwards. An error says
	// that the receiver, or one that it sends to, will not deliver them, and Answers
	// whether others will.
	Append(ctx context.Context, labels labels.Labels, samples []*RawSample) error

	// AppendIngest does the same for a profile of the older API.
	AppendIngest(ctx context.Context, profile *IncomingProfile) error
}

// ErrNoIngest is the answer of a receiver that takes no profiles of the older API.
var ErrNoIngest = errors.New("does not take profiles of the /ingest API")

// AppendableFunc is a function as a receiver, and as its Appender. It refuses
// profiles of the older API.
type AppendableFunc func(ctx context.Context, labels labels.Labels, samples []*RawSample) error

// Append calls f.
func (f AppendableFunc) Append(ctx context.Context, labels labels.Labels, samples []*RawSample) error {
	return f(ctx, labels, samples)
}

// AppendIngest returns ErrNoIngest.
func (f AppendableFunc) AppendIngest(context.Context, *IncomingProfile) error { return ErrNoIngest }

// Appender returns f.
func (f AppendableFunc) Appender() Appender { return f }

// NoopAppendable is a receiver that drops every profile.
type NoopAppendable struct{}

// Append does nothing.
func (NoopAppendable) Append(context.Context, labels.Labels, []*RawSample) error { return nil }

// AppendIngest does nothing.
func (NoopAppendable) AppendIngest(context.Context, *IncomingProfile) error { return nil }

// Appender returns n.
func (n NoopAppendable) Appender() Appender { return n }
