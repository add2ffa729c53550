package top

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit"
)

// terminal is an emulated terminal that records its input.
type terminal struct {
	vt.MockTerm
	mu      sync.Mutex
	written bytes.Buffer
	stopped bool
}

func newTerminal(width, height int) *terminal {
	return &terminal{MockTerm: vt.NewMockTerm(vt.MockOptSize{X: vt.Col(width), Y: vt.Row(height)})}
}

func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	t.written.Write(b)
	t.mu.Unlock()
	return t.MockTerm.Write(b)
}

func (t *terminal) Stop() error {
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	return t.MockTerm.Stop()
}

func (t *terminal) raw() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written.String()
}

// shows returns the contents of the terminal.
func (t *terminal) shows() string {
	var b strings.Builder
	size := t.Backend().GetSize()
	for y := range size.Y {
		for x := range size.X {
			c := t.GetCell(vt.Coord{X: x, Y: y}).C
			if c == "" {
				c = " "
			}
			b.WriteString(c)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// fake is a source of rounds that were made up.
type fake struct {
	updates chan update
	waits   chan Waits
	ended   chan end
	command func(int64) string

	isCommand bool
}

func (f *fake) events() (<-chan update, <-chan Waits, <-chan end) { return f.updates, f.waits, f.ended }
func (f *fake) askWaits(int64)                                    {}
func (f *fake) endsView() bool                                    { return f.isCommand }
func (f *fake) stateNow(u update) Now                             { return Now{OwnCPU: u.own, Command: f.command} }

// showing is a screen that is shown.
type showing struct {
	*terminal
	fake  *fake
	stop  context.CancelFunc
	ended chan error
	over  bool // the screen ended because the selected processes have ended
}

func showOn(t *testing.T, width, height int, noColor bool) *showing {
	t.Helper()
	t.Setenv("NO_COLOR", "")
	t.Setenv("COLORTERM", "")
	x := &showing{
		terminal: newTerminal(width, height), ended: make(chan error, 1),
		fake: &fake{updates: make(chan update), waits: make(chan Waits), ended: make(chan end, 1)},
	}
	options := append(noQuestions(), tcell.OptTerm("xterm-256color"))
	if noColor {
		options = append(options, tcell.OptColors(0))
	}
	s, err := tcell.NewTerminfoScreenFromTty(x.terminal, options...)
	require.NoError(t, err)
	var ctx context.Context
	ctx, x.stop = context.WithCancel(context.Background())
	t.Cleanup(x.stop)
	v := NewView(About{What: "this host", Rate: 100}, ByProcess, 30*time.Second)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				x.ended <- errors.New(p.(string))
			}
		}()
		over, err := showScreen(ctx, screen{s, noColor}, v, x.fake)
		x.over = over
		x.ended <- err
	}()
	x.fake.updates <- update{newParts(t).next(shop()), 0.01}
	return x
}

func (x *showing) eventually(t *testing.T, text string) {
	t.Helper()
	testkit.Eventually(t, "it shows "+text, func() bool { return strings.Contains(x.shows(), text) })
}

// end waits until the screen is left. The terminal must be as it was.
func (x *showing) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-x.ended:
		require.True(t, x.stopped)
		raw := x.raw()
		for _, mode := range []string{"?1049", "?25"} { // the other screen, the cursor
			on, off := strings.LastIndex(raw, "\x1b["+mode+"h"), strings.LastIndex(raw, "\x1b["+mode+"l")
			require.GreaterOrEqual(t, on, 0)
			require.GreaterOrEqual(t, off, 0)
			require.Equal(t, mode == "?1049", on < off, "%s at the end of %q", mode, raw[max(0, len(raw)-200):])
		}
		return err
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not end")
		return nil
	}
}

func TestScreen(t *testing.T) {
	x := showOn(t, 100, 20, false)
	x.eventually(t, "shopd")
	x.SendRaw([]byte("f"))
	x.eventually(t, "price  shopd")
	require.Contains(t, x.raw(), "38;5;215", "the kernel has its color")
	x.SetSize(vt.Coord{X: 50, Y: 9})
	x.eventually(t, "CPU%     SELF    TOTAL FUNCTION      ")
	x.SendRaw([]byte("\x1b[B\r"))
	x.eventually(t, "in db+0x1240")
	x.SendRaw([]byte("q"))
	require.NoError(t, x.end(t))
}

// TestNoColor: without colors only reverse, bold and faint are used, and all information is shown.
func TestNoColor(t *testing.T) {
	x := showOn(t, 100, 20, true)
	x.eventually(t, "shopd")
	x.SendRaw([]byte("g"))
	x.eventually(t, "▏price")
	x.SendRaw([]byte{3})
	require.NoError(t, x.end(t))
	require.NotRegexp(t, `\x1b\[[0-9;:]*\b([34][0-8]|9[0-7])\b[0-9;:]*m`, x.raw())
	require.Regexp(t, `\x1b\[[0-9;]*7m`, x.raw())
}

// TestEnds: the terminal is given back when a signal ends the program, sampling fails, or something panics.
func TestEnds(t *testing.T) {
	x := showOn(t, 80, 24, false)
	x.eventually(t, "shopd")
	x.stop()
	require.NoError(t, x.end(t))

	x = showOn(t, 80, 24, false)
	x.fake.ended <- end{err: errors.New("no more samples")}
	require.EqualError(t, x.end(t), "no more samples")

	x = showOn(t, 80, 24, false)
	x.fake.ended <- end{why: "process 100 has ended"}
	x.eventually(t, "process 100 has ended")
	x.fake.command = func(int64) string { panic("a bug") }
	x.fake.updates <- update{newParts(t).next(shop()), 0}
	require.EqualError(t, x.end(t), "a bug")

	x = showOn(t, 80, 24, false)
	x.eventually(t, "shopd")
	x.fake.isCommand = true
	x.fake.ended <- end{why: "the command has ended"}
	require.NoError(t, x.end(t))
	require.True(t, x.over)
}
