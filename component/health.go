package component

import (
	"fmt"
	"sync"
	"time"
)

// HealthType is a component's condition. The zero value is HealthTypeUnknown.
type HealthType uint8

// The conditions, each with its name in River and JSON.
const (
	HealthTypeUnknown   HealthType = iota // unknown: no state reported yet
	HealthTypeHealthy                     // healthy: works as configured
	HealthTypeUnhealthy                   // unhealthy: does not work, or not with its newest arguments
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

// severity orders the conditions: a higher value is less healthy.
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

// Health is a component's condition with an explanation for the user.
type Health struct {
	Health     HealthType `river:"state,attr"`
	Message    string     `river:"message,attr,optional"`
	UpdateTime time.Time  `river:"update_time,attr,optional"` // start of this condition
}

// Now returns the health that follows h. It keeps h's time as long as the condition stays the same, even if the message
// changes.
func (h Health) Now(kind HealthType, message string) Health {
	next := Health{Health: kind, Message: message, UpdateTime: time.Now()}
	if kind == h.Health && !h.UpdateTime.IsZero() {
		next.UpdateTime = h.UpdateTime
	}
	return next
}

// LeastHealthy returns the worst of several healths: exited before unhealthy before unknown before healthy, and the
// newest of equal healths.
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

// Condition stores a component's health, which is unknown at first. A component that embeds it implements
// HealthComponent. It is safe for concurrent use.
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

// SetHealth sets the component's health.
func (c *Condition) SetHealth(kind HealthType, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health = c.health.Now(kind, message)
}
