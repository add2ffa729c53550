package river

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/grafana/river/vm"
	"go.yaml.in/yaml/v3"
)

// standardScope returns the scope of the standard library. River has its own functions (env,
// concat, json_decode, ...). Alloy added second names in namespaces for most functions, and some
// new functions. The scope contains the functions that River lacks, and functions that replace
// River's. Lookups in it also find River's own functions.
func standardScope() *vm.Scope {
	return &vm.Scope{Variables: map[string]interface{}{
		"constants":     constants(),
		"base64_decode": decodeBase64(base64.StdEncoding),
		"yaml_decode":   decodeYAML,
		"format":        format,
		"sys":           map[string]interface{}{"env": os.Getenv},
		"convert":       map[string]interface{}{"nonsensitive": builtin("nonsensitive")},
		"array": map[string]interface{}{
			"concat":       builtin("concat"),
			"combine_maps": combineMaps,
			"group_by":     groupBy,
		},
		"file": map[string]interface{}{"path_join": func(parts ...string) string { return filepath.Join(parts...) }},
		"string": map[string]interface{}{
			"format":      format,
			"join":        strings.Join,
			"replace":     strings.ReplaceAll,
			"split":       strings.Split,
			"to_lower":    strings.ToLower,
			"to_upper":    strings.ToUpper,
			"trim":        strings.Trim,
			"trim_prefix": strings.TrimPrefix,
			"trim_suffix": strings.TrimSuffix,
			"trim_space":  strings.TrimSpace,
		},
		"encoding": map[string]interface{}{
			"from_json":      builtin("json_decode"),
			"from_yaml":      decodeYAML,
			"from_base64":    decodeBase64(base64.StdEncoding),
			"from_URLbase64": decodeBase64(base64.URLEncoding),
			"to_json":        encodeJSON,
			"to_base64":      func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) },
			"to_URLbase64":   func(text string) string { return base64.URLEncoding.EncodeToString([]byte(text)) },
			"url_encode":     url.QueryEscape,
			"url_decode":     url.QueryUnescape,
		},
	}}
}

// builtin returns one of River's own functions.
func builtin(name string) interface{} {
	value, _ := (&vm.Scope{}).Lookup(name)
	return value
}

// constants returns River's own constants, and Alloy's constant version: the program's semantic
// version, which starts with v, or v0.0.0 for a build without a version.
func constants() map[string]string {
	all := maps.Clone(builtin("constants").(map[string]string))
	all["version"] = "v0.0.0"
	if build, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(build.Main.Version, "v") {
		all["version"] = build.Main.Version
	}
	return all
}

func decodeBase64(encoding *base64.Encoding) func(string) (string, error) {
	return func(text string) (string, error) {
		decoded, err := encoding.DecodeString(text)
		return string(decoded), err
	}
}

func decodeYAML(text string) (interface{}, error) {
	var value interface{}
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return nil, err
	}
	return value, checkPlain(value)
}

// format is River's own function, but accepts only plain values. A capsule may be a secret, which
// River's function would put into the text.
func format(layout string, values ...interface{}) (string, error) {
	for _, value := range values {
		if err := checkPlain(value); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(layout, values...), nil
}

// encodeJSON accepts only plain values, for the same reason.
func encodeJSON(value interface{}) (string, error) {
	if err := checkPlain(value); err != nil {
		return "", err
	}
	encoded, err := json.Marshal(value)
	return string(encoded), err
}

func checkPlain(value interface{}) error {
	switch value := value.(type) {
	case nil, bool, string, int, int64, uint64, float64:
		return nil
	case []interface{}:
		for _, element := range value {
			if err := checkPlain(element); err != nil {
				return err
			}
		}
		return nil
	case map[string]interface{}:
		for _, field := range value {
			if err := checkPlain(field); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("cannot turn a value of type %T into text", value)
	}
}
