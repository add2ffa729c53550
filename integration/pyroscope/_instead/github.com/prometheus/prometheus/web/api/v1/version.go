// Package v1 has the parts of Prometheus' web server that Pyroscope uses: the structure of a version.
package v1

// PrometheusVersion says which version of a program runs.
type PrometheusVersion struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"`
	Branch    string `json:"branch"`
	BuildUser string `json:"buildUser"`
	BuildDate string `json:"buildDate"`
	GoVersion string `json:"goVersion"`
}
