package component

import "fmt"

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
