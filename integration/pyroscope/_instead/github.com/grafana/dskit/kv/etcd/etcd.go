// Package etcd stands in for dskit's client of etcd.
package etcd

import (
	"errors"
	"flag"

	"github.com/go-kit/log"

	"github.com/grafana/dskit/kv/codec"
	"github.com/grafana/dskit/kv/consul"
)

// Config has no fields.
type Config struct{}

// RegisterFlagsWithPrefix adds no flags.
func (*Config) RegisterFlagsWithPrefix(*flag.FlagSet, string) {}

// New fails.
func New(Config, codec.Codec, log.Logger) (*consul.Client, error) {
	return nil, errors.New("the client of etcd is left out of this build")
}
