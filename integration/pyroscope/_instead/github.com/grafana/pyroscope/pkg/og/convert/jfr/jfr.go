// Package jfr stands in for the reader of recordings of Java.
package jfr

import (
	"context"
	"errors"

	"github.com/grafana/pyroscope/pkg/distributor/model"
	"github.com/grafana/pyroscope/pkg/og/ingestion"
	"github.com/grafana/pyroscope/pkg/og/storage"
)

var errLeftOut = errors.New("recordings of Java are left out of this build")

// RawProfile is a recording of Java.
type RawProfile struct {
	FormDataContentType string
	RawData             []byte
}

// Bytes returns the recording.
func (p *RawProfile) Bytes() ([]byte, error) { return p.RawData, nil }

// ContentType returns how the recording is sent.
func (p *RawProfile) ContentType() string { return p.FormDataContentType }

// ParseToPprof fails.
func (*RawProfile) ParseToPprof(context.Context, ingestion.Metadata, ingestion.Limits) (*model.PushRequest, error) {
	return nil, errLeftOut
}

// Parse fails.
func (*RawProfile) Parse(context.Context, storage.Putter, storage.MetricsExporter, ingestion.Metadata) error {
	return errLeftOut
}
