package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/grafana/river/rivertypes"

	"github.com/headwater/headwater/component"
)

// Registrations returns the components that the tables use:
//
//	test.value   takes a value of every type and exports it
//	test.sink    takes the same and exports nothing
//	test.strict  requires an attribute and a block
//	test.choice  takes blocks one of a kind
func Registrations() []component.Registration {
	return []component.Registration{
		{Name: "test.value", Args: ValueArguments{}, Exports: ValueExports{}, Build: buildValue},
		{Name: "test.sink", Args: ValueArguments{}, Build: buildSink},
		{Name: "test.strict", Args: StrictArguments{}, Build: buildIdle},
		{Name: "test.choice", Args: ChoiceArguments{}, Build: buildIdle},
	}
}

// Receiver is an interface: River makes a capsule of it.
type Receiver interface{ Receive(string) }

// ValueArguments are the arguments of test.value and test.sink.
type ValueArguments struct {
	In             string                    `river:"in,attr,optional"`
	Number         int                       `river:"number,attr,optional"`
	Small          uint8                     `river:"small,attr,optional"`
	Float          float64                   `river:"float,attr,optional"`
	Flag           bool                      `river:"flag,attr,optional"`
	List           []string                  `river:"list,attr,optional"`
	Numbers        []int                     `river:"numbers,attr,optional"`
	Matrix         [][]int                   `river:"matrix,attr,optional"`
	Table          map[string]string         `river:"table,attr,optional"`
	Targets        []map[string]string       `river:"targets,attr,optional"`
	Any            interface{}               `river:"any,attr,optional"`
	Object         *Point                    `river:"object,attr,optional"`
	Pause          time.Duration             `river:"pause,attr,optional"`
	Secret         rivertypes.Secret         `river:"secret,attr,optional"`
	OptionalSecret rivertypes.OptionalSecret `river:"optional_secret,attr,optional"`
	ForwardTo      []Receiver                `river:"forward_to,attr,optional"`
	Receiver       Receiver                  `river:"receiver,attr,optional"`
	Behaviour      string                    `river:"behaviour,attr,optional"`
	Point          *Point                    `river:"point,block,optional"`
	Part           []Part                    `river:"part,block,optional"`
	Squashed       Squashed                  `river:",squash"`
}

// Point is an object, and a block.
type Point struct {
	X int    `river:"x,attr"`
	Y int    `river:"y,attr,optional"`
	N string `river:"name,attr,optional"`
}

// Part is a block with a label, and with blocks inside.
type Part struct {
	Label string `river:",label"`
	Size  int    `river:"size,attr,optional"`
	Inner *Point `river:"inner,block,optional"`
}

// Squashed are arguments in a squashed struct.
type Squashed struct {
	Deep string `river:"deep,attr,optional"`
}

// SetToDefault implements river.Defaulter.
func (a *ValueArguments) SetToDefault() {
	*a = ValueArguments{Pause: time.Minute}
}

// Validate implements river.Validator.
func (a *ValueArguments) Validate() error {
	if a.Number < 0 {
		return errors.New("number must not be negative")
	}
	return nil
}

// StrictArguments are the arguments of test.strict.
type StrictArguments struct {
	In    string `river:"in,attr"`
	Point Point  `river:"point,block"`
}

// ChoiceArguments are the arguments of test.choice.
type ChoiceArguments struct {
	Steps []ChoiceStep `river:"step,enum,optional"`
}

// ChoiceStep is one of the blocks of test.choice.
type ChoiceStep struct {
	Move *Point    `river:"move,block,optional"`
	Rest *Squashed `river:"rest,block,optional"`
}

// ValueExports are the exports of test.value.
type ValueExports struct {
	Out            string                    `river:"out,attr,optional"`
	Number         int                       `river:"number,attr,optional"`
	Float          float64                   `river:"float,attr,optional"`
	Flag           bool                      `river:"flag,attr,optional"`
	List           []string                  `river:"list,attr,optional"`
	Table          map[string]string         `river:"table,attr,optional"`
	Targets        []map[string]string       `river:"targets,attr,optional"`
	Any            interface{}               `river:"any,attr,optional"`
	Object         *Point                    `river:"object,attr,optional"`
	Pause          time.Duration             `river:"pause,attr,optional"`
	Secret         rivertypes.Secret         `river:"secret,attr,optional"`
	OptionalSecret rivertypes.OptionalSecret `river:"optional_secret,attr,optional"`
	Receiver       Receiver                  `river:"receiver,attr,optional"`
}

type specimen struct {
	mu     sync.Mutex
	args   ValueArguments
	export func(ValueExports) // nil for components without exports
}

func buildValue(o component.Options, arguments component.Arguments) (component.Component, error) {
	s := &specimen{export: func(e ValueExports) { o.OnStateChange(e) }}
	return s.start(arguments)
}

func buildSink(_ component.Options, arguments component.Arguments) (component.Component, error) {
	return (&specimen{}).start(arguments)
}

func buildIdle(component.Options, component.Arguments) (component.Component, error) {
	return &specimen{}, nil
}

func (s *specimen) start(arguments component.Arguments) (component.Component, error) {
	if arguments.(ValueArguments).Behaviour == "fail to build" {
		return nil, errors.New("no luck")
	}
	return s, s.Update(arguments)
}

// sink is a receiver. It is separate from the specimen, because River copies the target of an exported pointer.
type sink struct{}

// Receive implements Receiver.
func (*sink) Receive(string) {}

// Update implements component.Component: it exports its arguments.
func (s *specimen) Update(arguments component.Arguments) error {
	args, ok := arguments.(ValueArguments)
	if !ok {
		return nil
	}
	if args.Behaviour == "fail to update" {
		return fmt.Errorf("cannot take %q", args.In)
	}
	s.mu.Lock()
	s.args = args
	s.mu.Unlock()
	if s.export != nil && args.Behaviour != "export nothing" && args.Behaviour != "export later" {
		s.export(s.exports(args))
	}
	return nil
}

func (s *specimen) exports(a ValueArguments) ValueExports {
	e := ValueExports{
		Out: a.In, Number: a.Number, Float: a.Float, Flag: a.Flag, List: a.List, Table: a.Table, Targets: a.Targets,
		Any: a.Any, Object: a.Object, Secret: a.Secret, OptionalSecret: a.OptionalSecret,
	}
	switch a.Behaviour {
	case "export the pause":
		e.Pause = a.Pause
	case "export a receiver":
		e.Receiver = &sink{}
	}
	return e
}

// Run implements component.Component.
func (s *specimen) Run(ctx context.Context) error {
	s.mu.Lock()
	args := s.args
	s.mu.Unlock()
	switch args.Behaviour {
	case "fail":
		return errors.New("bad luck")
	case "exit":
		return nil
	case "export later":
		s.export(s.exports(args))
	}
	<-ctx.Done()
	return nil
}
