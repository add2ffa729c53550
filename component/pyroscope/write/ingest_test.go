package write

import (
	"context"
	"net/http"
	"net/url"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component/pyroscope"
)

func incoming(t *testing.T, target, body string) *pyroscope.IncomingProfile {
	u, err := url.Parse(target)
	require.NoError(t, err)
	return &pyroscope.IncomingProfile{
		RawBody:     []byte(body),
		ContentType: []string{"multipart/form-data; boundary=x"},
		URL:         u,
		Labels:      labels.FromStrings("__name__", "old", "service_name", "shop", "zone", "own"),
	}
}

// A profile of the older API is sent on as it came, but for its labels.
func TestAppendIngest(t *testing.T) {
	s := newServer(t)
	args := argumentsTo(s.URL + "/")
	args.ExternalLabels = map[string]string{"zone": "external"}
	args.Endpoints[0].Headers = map[string]string{"X-Scope-OrgID": "tenant"}
	r := newRig(t, args, testTuning()).run()
	require.NoError(t,
		r.receiver.Appender().AppendIngest(context.Background(),
			incoming(t, "/ingest?name=old%7Ba%3Db%7D&from=1&until=2&spyName=x", "body")))

	got := s.receive(t)
	require.Equal(t, "body", got.profile)
	require.Equal(t, "/ingest", got.path)
	query, err := url.ParseQuery(got.query)
	require.NoError(t, err)
	require.Equal(t, url.Values{
		"name": {"shop{service_name=shop,zone=external}"}, "from": {"1"}, "until": {"2"}, "spyName": {"x"},
	}, query)
	require.Equal(t, "multipart/form-data; boundary=x", got.header.Get("Content-Type"))
	require.Equal(t, "tenant", got.header.Get("X-Scope-OrgID"))
	require.Regexp(t, `^headwater/\S+$`, got.header.Get("User-Agent"))
	r.eventually("pyroscope_write_sent_profiles_total", 1)
	require.EqualValues(t, 4, r.metric("pyroscope_write_sent_bytes_total"))
}

// Answers of the older API mean the same as answers of the push API.
func TestIngestRetries(t *testing.T) {
	for status, retried := range map[int]bool{400: false, 401: false, 422: false, 408: true, 429: true,
		500: true, 503: true} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.answerIngest = func(call int) int {
				if call == 1 {
					return status
				}
				return http.StatusOK
			}
			r := newRig(t, argumentsTo(s.URL), testTuning()).run()
			require.NoError(t, r.receiver.Appender().AppendIngest(context.Background(), incoming(t, "/ingest", "body")))
			if retried {
				s.receive(t)
				r.eventually("pyroscope_write_sent_profiles_total", 1)
				return
			}
			r.eventually("pyroscope_write_dropped_profiles_total", 1)
			require.Contains(t, r.log.String(), "says the server")
		})
	}
}

func TestInvalidIngestIsRefused(t *testing.T) {
	r := newRig(t, Arguments{}, testTuning()).run()
	profile := incoming(t, "/ingest", "body")
	profile.URL = nil
	require.EqualError(t, r.receiver.Appender().AppendIngest(context.Background(), profile), "profile without a URL")
	profile = incoming(t, "/ingest", "body")
	profile.Labels = labels.EmptyLabels()
	require.EqualError(t, r.receiver.Appender().AppendIngest(context.Background(), profile),
		"invalid labels in profile: no labels")
	r.stop()
	require.EqualError(t, r.receiver.Appender().AppendIngest(context.Background(), profile),
		"pyroscope.write.test has exited")
}
