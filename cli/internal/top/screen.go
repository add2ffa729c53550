package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/clipperhouse/displaywidth"
	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"
	"golang.org/x/sys/unix"

	"github.com/headwater/headwater/flame/tree"
)

// Show shows CPU use on the terminal of this process, until a key, ctx or the end of the command ends it. It always
// restores the terminal. If the command has ended by itself, Show prints the last view as a table, and ended is not
// nil.
func Show(ctx context.Context, o Options, p Tables, out io.Writer) (ended *CommandEnd, err error) {
	l, v, err := o.openLive(ctx)
	if err != nil {
		return nil, err
	}
	defer l.close(&ended, &err)
	options := noQuestions()
	if o.NoColor {
		options = append(options, tcell.OptColors(0))
	}
	s, err := tcell.NewScreen(options...)
	if err != nil {
		return nil, fmt.Errorf("use the terminal: %w; --once prints one table without it", err)
	}
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	if over, err := showScreen(ctx, screen{s, o.NoColor}, v, l); err != nil || !over {
		return nil, err
	}
	return nil, v.write(out, p)
}

// noQuestions disables queries of the terminal's capabilities. They are not needed here, late answers would end up in
// the shell's input, and tmux 3.3 answers with width and height swapped.
func noQuestions() []tcell.TerminfoScreenOption {
	return []tcell.TerminfoScreenOption{tcell.OptNegotiation(false)}
}

// source provides the data of a screen; *live implements it.
type source interface {
	events() (updates <-chan update, waits <-chan Waits, ended <-chan end)
	askWaits(pid int64)
	endsView() bool
	stateNow(update) Now
}

func (l *live) events() (<-chan update, <-chan Waits, <-chan end) { return l.updates, l.waits, l.ended }

// showScreen runs the screen. Fini restores the terminal, also after a panic. over reports that the view ends because
// the selected processes have ended.
func showScreen(ctx context.Context, s screen, v *View, from source) (over bool, err error) {
	if err := s.Init(); err != nil {
		return false, fmt.Errorf("use the terminal: %w", err)
	}
	defer s.Fini()
	s.HideCursor()
	v.Resize(s.Size())
	stops := make(chan os.Signal, 1)
	signal.Notify(stops, syscall.SIGTSTP) // from kill -TSTP and some parents; the key arrives as an event
	defer signal.Stop(stops)
	updates, waits, ends := from.events()
	for {
		s.drawView(v)
		select {
		case <-ctx.Done():
			return false, nil
		case u := <-updates:
			v.Add(u.part, from.stateNow(u))
			if pid, ok := v.WaitsOf(); ok {
				from.askWaits(pid)
			}
		case w := <-waits:
			v.SetWaits(w)
		case e := <-ends:
			if e.err != nil {
				return false, e.err
			}
			v.SetEnded(e.why)
			if from.endsView() {
				return true, nil
			}
		case <-stops:
			if err := s.suspend(); err != nil {
				return false, err
			}
		case event, ok := <-s.EventQ():
			if done, err := s.handle(v, event, ok, from); done || err != nil {
				return false, err
			}
		}
	}
}

// screen is a terminal.
type screen struct {
	tcell.Screen
	noColor bool
}

// handle handles an event. done reports that the screen ends.
func (s screen) handle(v *View, event tcell.Event, ok bool, from source) (done bool, err error) {
	switch e := event.(type) {
	case *tcell.EventResize:
		v.Resize(s.Size())
		s.Sync()
	case *tcell.EventError:
		return true, fmt.Errorf("read the terminal: %s", e.Error())
	case *tcell.EventKey:
		before, had := v.WaitsOf()
		switch v.Key(keyName(e)) {
		case Quit:
			return true, nil
		case Save:
			v.Save()
		case Suspend:
			return false, s.suspend()
		}
		if pid, ok := v.WaitsOf(); ok && (!had || pid != before) {
			from.askWaits(pid)
		}
	}
	return !ok, nil
}

// suspend stops this process, like Ctrl-Z, until it is continued.
func (s screen) suspend() error {
	if err := s.Suspend(); err != nil {
		return err
	}
	if err := stopHere(); err != nil {
		return err
	}
	return s.Resume()
}

// stopHere stops this process, and returns when it is continued. It sends the signal to this thread: a signal to the
// process may reach any of its threads, and this thread could continue for a while.
func stopHere() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
}

// keyName returns a View's name for a key.
func keyName(e *tcell.EventKey) string {
	switch e.Key() {
	case tcell.KeyRune:
		return e.Str()
	case tcell.KeyCtrlC:
		return "Ctrl-C"
	case tcell.KeyCtrlZ:
		return "Ctrl-Z"
	case tcell.KeyBackspace, tcell.KeyDelete:
		return "Backspace"
	}
	return e.Name()
}

// drawView draws the view.
func (s screen) drawView(v *View) {
	s.Clear()
	for y, line := range v.Lines() {
		x := 0
		for _, span := range line {
			s.PutStrStyled(x, y, span.Text, s.style(span.Style))
			x += displaywidth.String(span.Text)
		}
	}
	s.Show()
}

func (s screen) style(of Style) tcell.Style {
	style := tcell.StyleDefault
	switch of.Look {
	case Faint:
		return style.Dim(true)
	case Title:
		return style.Bold(true)
	case Head:
		return style.Reverse(true)
	case Selected:
		return style.Reverse(true).Bold(true)
	}
	if s.noColor {
		return style
	}
	switch of.Look {
	case Warning:
		return style.Foreground(color.PaletteColor(yellow)).Bold(true)
	case Colored:
		if c := textColor(of.Kind); c != 0 {
			return style.Foreground(color.PaletteColor(c))
		}
	case Box:
		return style.Foreground(color.PaletteColor(black)).Background(color.PaletteColor(boxColor(of.Kind)))
	}
	return style
}

// Numbers of colors in the palette of xterm.
const (
	black  = 16
	yellow = 220
)

// boxColor returns the color of a kind in a flame graph, the same as on the web page.
func boxColor(k tree.Kind) int {
	switch k {
	case tree.Kernel:
		return 215
	case tree.Native:
		return 117
	case tree.Inlined:
		return 153
	case tree.Runtime:
		return 79
	case tree.JIT:
		return 182
	}
	return 252
}

// textColor returns the color of a kind in a table, 0 for the default text color.
func textColor(k tree.Kind) int {
	switch k {
	case tree.Kernel, tree.Runtime, tree.JIT:
		return boxColor(k)
	}
	return 0
}
