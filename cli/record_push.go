package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/google/pprof/profile"
	"github.com/spf13/pflag"

	"github.com/headwater/headwater/component/pyroscope/write"
	"github.com/headwater/headwater/flame/export"
	"github.com/headwater/headwater/flame/kind"
	"github.com/headwater/headwater/flame/pprof"
)

const serviceName = "service_name"

// pushFlags configure the server that a recording is sent to, in addition to its file.
type pushFlags struct {
	url    string
	labels map[string]string
}

func (f *pushFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "push", "", "also push the profile to Pyroscope at this URL, such as http://127.0.0.1:4040")
	flags.StringToStringVar(&f.labels, "push-label", nil,
		"labels of the pushed profile, such as service_name=shop,env=test (default: a service_name for the selection)")
}

// check returns an error for flags that can never work.
func (f *pushFlags) check() error {
	if f.url == "" && len(f.labels) > 0 {
		return errors.New("--push-label needs --push URL")
	}
	if f.url == "" {
		return nil
	}
	if err := write.CheckURL(f.url); err != nil {
		return fmt.Errorf("--push: %w", err)
	}
	if err := write.CheckLabels(f.pushLabels("title", kind.CPU)); err != nil {
		return fmt.Errorf("--push-label: %w", err)
	}
	return nil
}

// pushLabels returns the labels for a profile with this title and kind.
func (f *pushFlags) pushLabels(title string, of kind.Kind) map[string]string {
	all := map[string]string{"__name__": kind.Of(of).Series, serviceName: title}
	maps.Copy(all, f.labels)
	return all
}

// pushProfile sends a profile to Pyroscope if --push was given. It returns the profile's service in Pyroscope, or "" if
// no profile was sent.
func (f *pushFlags) pushProfile(ctx context.Context, p *profile.Profile, of kind.Kind) (service string, err error) {
	if f.url == "" {
		return "", nil
	}
	all := f.pushLabels(export.Title(p), of)
	var data bytes.Buffer
	if err := export.Pprof(&data, pprof.WithoutCount(p)); err != nil {
		return "", err
	}
	if err := write.Once(ctx, f.url, all, data.Bytes()); err != nil {
		return "", err
	}
	return all[serviceName], nil
}
