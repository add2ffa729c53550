package component

import (
	"fmt"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// AttributeError says that the value of one attribute cannot be used. A Validate method returns it so that the host can
// point at that attribute; a host that does not know this type (the Grafana Agent) points at the whole block instead.
type AttributeError struct {
	// Attribute is the attribute's name in River, preceded by the names of the
	// blocks that hold it: "sample_rate", "endpoint.url".
	Attribute string

	// Message describes the problem, without the attribute's name.
	Message string
}

// Error returns the attribute's name followed by the message.
func (e *AttributeError) Error() string { return e.Attribute + " " + e.Message }

// Refuse returns an AttributeError whose message is formatted as by fmt.Sprintf.
func Refuse(attribute, format string, args ...any) error {
	return &AttributeError{Attribute: attribute, Message: fmt.Sprintf(format, args...)}
}

// A Warner is a pointer to arguments that a component uses, although it does not do all that they ask for.
type Warner interface {
	// Warnings returns an entry for each attribute that does not have the effect that it asks for. It is called after
	// Validate.
	Warnings() []*AttributeError
}

// NoEffect returns a warning about an attribute that is accepted, but has no effect. reason may be "".
func NoEffect(attribute, reason string) *AttributeError {
	if reason != "" {
		reason = ": " + reason
	}
	return &AttributeError{Attribute: attribute, Message: "has no effect in Headwater" + reason}
}

// LogWarnings logs the warnings that are not among those before, which the previous arguments had.
func LogWarnings(logger log.Logger, warnings, before []*AttributeError) {
	known := make(map[AttributeError]bool, len(before))
	for _, w := range before {
		known[*w] = true
	}
	for _, w := range warnings {
		if !known[*w] {
			level.Warn(logger).Log("msg", "argument "+w.Error())
		}
	}
}
