package write

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/grafana/pyroscope/api/model/labelset"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/headwater/headwater/component/pyroscope"
)

const labelServiceName = "service_name"

// ingestRequest is a request to Pyroscope's older API. It is immutable.
type ingestRequest struct {
	path        string // below the endpoint's URL
	query       string
	contentType []string
	body        []byte
}

// newIngestRequest returns the request that delivers profile. Its labels, overwritten by external, travel in the
// query's "name", where the server takes the profile's name as the service's name.
func newIngestRequest(profile *pyroscope.IncomingProfile, external map[string]string) (*ingestRequest, error) {
	if profile.URL == nil {
		return nil, errors.New("profile without a URL")
	}
	of := profile.Labels
	if service := of.Get(labelServiceName); service != "" {
		of = labels.NewBuilder(of).Set(labelName, service).Labels()
	}
	pairs, err := mergeLabels(of, external, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	set := labelset.New(map[string]string{})
	for _, pair := range pairs {
		set.Add(pair.Name, pair.Value)
	}
	query := profile.URL.Query()
	query.Set("name", set.Normalized())
	return &ingestRequest{
		path:        profile.URL.Path,
		query:       query.Encode(),
		contentType: profile.ContentType,
		body:        profile.RawBody,
	}, nil
}

// postIngest makes one attempt to deliver r.
func (c *client) postIngest(ctx context.Context, r *ingestRequest) error {
	target, err := url.Parse(c.opts.URL)
	if err != nil {
		return fmt.Errorf("endpoint: url %w", err)
	}
	target = target.JoinPath(r.path)
	target.RawQuery = r.query
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(r.body))
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	c.setHeaders(request.Header)
	if len(r.contentType) > 0 {
		request.Header["Content-Type"] = r.contentType
	}
	answer, err := observer{c.http}.Do(request)
	if err != nil {
		return fmt.Errorf("ingest: %w", err)
	}
	defer answer.Body.Close()
	// read to the end, so that the connection can be used again
	text, err := io.ReadAll(io.LimitReader(answer.Body, MaxResponse))
	switch {
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return &ingestError{status: answer.Status, text: string(bytes.TrimSpace(text))}
	case err != nil:
		return fmt.Errorf("ingest: read the answer: %w", err)
	}
	return nil
}

// ingestError is an error response of the older API.
type ingestError struct{ status, text string }

func (e *ingestError) Error() string {
	return fmt.Sprintf("ingest: the server answers %s: %s", e.status, e.text)
}
