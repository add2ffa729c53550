package receivehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"github.com/go-kit/log/level"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
	"github.com/grafana/pyroscope/api/model/labelset"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component/pyroscope"
)

const ingestPath = "/ingest"

const (
	labelName        = "__name__"
	labelServiceName = "service_name"
	labelAppName     = "app_name"
)

func (c *Component) handler(readTimeout time.Duration) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+ingestPath, c.ingest)
	path, push := pushv1connect.NewPusherServiceHandler(pusher{c}, connect.WithReadMaxBytes(MaxRequest),
		connect.WithCompression("gzip", nil, nil), codecs()) // bodies arrive here decompressed
	mux.Handle("POST "+path, push)
	return c.room.bound(mux, readTimeout)
}

// pusher receives profiles over the push API.
type pusher struct{ c *Component }

// Push implements pushv1connect.PusherServiceHandler.
func (p pusher) Push(ctx context.Context,
	req *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	appender := p.c.fanout.Appender()
	var got pyroscope.Answers
	for _, series := range req.Msg.GetSeries() {
		set := map[string]string{}
		for _, pair := range series.GetLabels() {
			set[pair.GetName()] = pair.GetValue()
		}
		var samples []*pyroscope.RawSample
		for _, s := range series.GetSamples() {
			samples = append(samples, &pyroscope.RawSample{ID: s.GetID(), RawProfile: s.GetRawProfile()})
		}
		got.Add(appender.Append(ctx, withServiceName(set), samples))
	}
	switch status := p.c.answer(&got); status {
	case http.StatusOK:
		return connect.NewResponse(&pushv1.PushResponse{}), nil
	case http.StatusInternalServerError:
		return nil, connect.NewError(connect.CodeInternal, got.Err())
	default: // Connect has no code for 413
		return nil, connect.NewError(connect.CodeInvalidArgument, got.Err())
	}
}

// answer returns the HTTP status for a client, given the receivers' answers to its profiles. Clients retry only after
// 500, so it returns 500 only if no receiver has taken a profile and at least one may take it later.
func (c *Component) answer(got *pyroscope.Answers) int {
	err := got.Err()
	if err == nil {
		return http.StatusOK
	}
	level.Warn(c.opts.Logger).Log("msg", "failed to forward profiles", "taken_by_others", got.Taken, "err", err)
	switch {
	case got.Failed && !got.Taken:
		return http.StatusInternalServerError
	case got.TooLarge:
		return http.StatusRequestEntityTooLarge
	case got.Refused:
		return http.StatusBadRequest
	default:
		c.partial.Inc()
		return http.StatusOK
	}
}

// ingest receives profiles over the older API, in any format.
func (c *Component) ingest(w http.ResponseWriter, r *http.Request) {
	set, err := labelset.Parse(r.URL.Query().Get("name"))
	if err != nil {
		http.Error(w, "the parameter name is not NAME{LABEL=VALUE,...}: "+err.Error(), http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		status := http.StatusBadRequest
		switch {
		case errors.Is(err, errNoRoom):
			status = http.StatusServiceUnavailable
		case errors.Is(err, errTooLong):
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "reading the profile: "+err.Error(), status)
		return
	}
	var got pyroscope.Answers
	got.Add(c.fanout.Appender().AppendIngest(r.Context(), &pyroscope.IncomingProfile{
		RawBody: body, ContentType: r.Header.Values("Content-Type"), URL: r.URL, Labels: withServiceName(set.Labels()),
	}))
	if status := c.answer(&got); status != http.StatusOK {
		http.Error(w, got.Err().Error(), status)
	}
}

// withServiceName uses the profile's name as service_name if the client sets none; otherwise it keeps the profile's
// name as app_name.
func withServiceName(set map[string]string) labels.Labels {
	b := labels.NewBuilder(labels.FromMap(set))
	if set[labelServiceName] == "" {
		b.Set(labelServiceName, set[labelName])
	} else {
		b.Set(labelAppName, set[labelName])
	}
	return b.Labels()
}
