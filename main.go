// Headwater profiles a Linux host with eBPF. It is configured in Grafana's River
// language and sends its profiles to Grafana Pyroscope.
package main

import (
	"os"

	"github.com/headwater/headwater/cli"
)

func main() { os.Exit(cli.Execute()) }
