package river

import (
	"fmt"
	"time"

	"github.com/headwater/headwater/component"
)

// nodeHealth is the health of a component as the runtime sees it.
type nodeHealth struct {
	run, evaluation component.Health
}

func newNodeHealth() nodeHealth {
	created := healthNow(component.HealthTypeUnknown, "component created")
	return nodeHealth{run: created, evaluation: created}
}

// evaluated records the result of an evaluation. The time is the time of the first of consecutive
// evaluations with the same result.
func (h *nodeHealth) evaluated(err error) {
	if err != nil {
		h.evaluation = h.evaluation.Now(component.HealthTypeUnhealthy, fmt.Sprintf("component evaluation failed: %s", err))
		return
	}
	h.evaluation = h.evaluation.Now(component.HealthTypeHealthy, "component evaluated")
}

func (h *nodeHealth) started() {
	h.run = healthNow(component.HealthTypeHealthy, "started component")
}

func (h *nodeHealth) exited(err error) {
	if err != nil {
		h.run = healthNow(component.HealthTypeExited, fmt.Sprintf("component shut down with error: %s", err))
		return
	}
	h.run = healthNow(component.HealthTypeExited, "component shut down normally")
}

func healthNow(kind component.HealthType, message string) component.Health {
	return component.Health{Health: kind, Message: message, UpdateTime: time.Now()}
}

// currentHealth returns the worst of three: the health of the component's run, of its last
// evaluation, and the health that the component reports itself.
func (n *componentNode) currentHealth() component.Health {
	worst := n.blockNode.currentHealth()
	reporter, ok := n.component().(component.HealthComponent)
	if !ok {
		return n.withWarnings(worst)
	}
	var own component.Health
	if err := protect(func() error { own = reporter.CurrentHealth(); return nil }); err != nil {
		logPanic(n.logger, "component panicked in CurrentHealth", err)
		own = healthNow(component.HealthTypeUnhealthy, fmt.Sprintf("component cannot report its health: %s", err))
	}
	return n.withWarnings(component.LeastHealthy(worst, own))
}

// withWarnings adds the warnings about a healthy component's arguments to the message.
func (n *componentNode) withWarnings(health component.Health) component.Health {
	if health.Health != component.HealthTypeHealthy {
		return health
	}
	for _, w := range n.currentWarnings() {
		health.Message += "; " + w.Error()
	}
	return health
}
