package component

import (
	"fmt"
	"sync"
	"time"
)

// HealthType is a component's condition. The zero value is HealthTypeUnknown.
type HealthType uint8

// The conditions, and how they are written in River and JSON.
const (
	HealthTypeUnknown   HealthType = iota // unknown: nothing is known yet
	HealthTypeHealthy                     // healthy: works as configured
	HealthTypeUnhealthy                   // unhealthy: does not, or not with its newest arguments
	HealthTypeExited                      // exited: Run has returned
)

// HealthTypes lists every condition once.
func HealthTypes() []HealthType {
	return []HealthType{HealthTypeUnknown, HealthTypeHealthy, HealthTypeUnhealthy, HealthTypeExited}
}

// String returns the condition's name in lower case.
func (t HealthType) String() string {
	switch t {
	case HealthTypeHealthy:
		return "healthy"
	case HealthTypeUnhealthy:
		return "unhealthy"
	case HealthTypeExited:
		return "exited"
	default:
		return "unknown"
	}
}

// MarshalText implements encoding.TextMarshaler.
func (t HealthType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *HealthType) UnmarshalText(text []byte) error {
	for _, known := range HealthTypes() {
		if string(text) == known.String() {
			*t = known
			return nil
		}
	}
	return fmt.Errorf("unknown health type %q", text)
}

// severity orders the conditions: the higher, the less healthy.
func (t HealthType) severity() int {
	switch t {
	case HealthTypeHealthy:
		return 0
	case HealthTypeUnhealthy:
		return 2
	case HealthTypeExited:
		return 3
	default:
		return 1
	}
}

// Health is a component's condition with a reason for people.
type Health struct {
	Health     HealthType `river:"state,attr"`
	Message    string     `river:"message,attr,optional"`
	UpdateTime time.Time  `river:"update_time,attr,optional"` // since when the condition is this
}

// Now returns the health that follows h now. Its time stays that of h while the condition does, whatever the message
// says.
func (h Health) Now(kind HealthType, message string) Health {
	next := Health{Health: kind, Message: message, UpdateTime: time.Now()}
	if kind == h.Health && !h.UpdateTime.IsZero() {
		next.UpdateTime = h.UpdateTime
	}
	return next
}

// LeastHealthy returns the worst of several healths: exited before unhealthy
// before unknown before healthy, and of equals the newest.
func LeastHealthy(first Health, others ...Health) Health {
	worst := first
	for _, h := range others {
		a, b := h.Health.severity(), worst.Health.severity()
		if a > b || a == b && h.UpdateTime.After(worst.UpdateTime) {
			worst = h
		}
	}
	return worst
}

// Condition is what a component says of its own health, unknown at first. Embedded,
// it makes a HealthComponent of it. It is safe for concurrent use.
type Condition struct {
	mu     sync.Mutex
	health Health
}

// CurrentHealth implements HealthComponent.
func (c *Condition) CurrentHealth() Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health
}

// SetHealth says that the component is in such a health from now on.
func (c *Condition) SetHealth(kind HealthType, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health = c.health.Now(kind, message)
}
