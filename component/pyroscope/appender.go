// Package pyroscope defines how components hand profiles to each other. It has the shape of Grafana Agent v0.40's
// package of the same name: a ProfilesReceiver in River is an Appendable here.
package pyroscope

import (
	"context"
	"errors"
	"net/url"

	"github.com/prometheus/prometheus/model/labels"
)

// LabelNameDelta is a label whose value "false" says to Pyroscope that a profile's values are already differences from
// the previous profile.
const LabelNameDelta = "__delta__"

// RawSample is one encoded profile.
type RawSample struct {
	ID         string // of the profile, set by its producer; may be ""
	RawProfile []byte // gzipped or plain protobuf of profile.proto; never changed once handed over
}

// IncomingProfile is a profile as a client sent it to Pyroscope's older API, POST /ingest, in any format that the API
// knows. It is passed on unchanged and never modified.
type IncomingProfile struct {
	RawBody     []byte   // of the request
	ContentType []string // the values of the header Content-Type, which names the format
	URL         *url.URL // of the request: its path and query are sent on, except the query's "name"
	Labels      labels.Labels
}

// Appendable is a receiver of profiles, called ProfilesReceiver in River.
type Appendable interface {
	// Appender returns an Appender to use for one or more profiles. It does not block and never returns nil.
	Appender() Appender
}

// Appender takes profiles.
type Appender interface {
	// Append hands over profiles of one label set. The receiver keeps samples and labels, so the caller must not change
	// them afterwards. An error says that this receiver, or one that it sends to, will not deliver the profiles;
	// Answers reports whether other receivers will.
	Append(ctx context.Context, labels labels.Labels, samples []*RawSample) error

	// AppendIngest hands over a profile of the older API in the same way.
	AppendIngest(ctx context.Context, profile *IncomingProfile) error
}

// ErrNoIngest is the error of a receiver that takes no profiles of the older API.
var ErrNoIngest = errors.New("does not accept profiles of the /ingest API")

// AppendableFunc is a function that implements Appendable and Appender. It refuses profiles of the older API.
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

// Append drops the profiles.
func (NoopAppendable) Append(context.Context, labels.Labels, []*RawSample) error { return nil }

// AppendIngest drops the profile.
func (NoopAppendable) AppendIngest(context.Context, *IncomingProfile) error { return nil }

// Appender returns n.
func (n NoopAppendable) Appender() Appender { return n }
