package write

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/go-kit/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/component"
	"github.com/headwater/headwater/component/pyroscope"
	"github.com/headwater/headwater/integration/testkit"
	"github.com/headwater/headwater/integration/testkit/record"
)

// The environment of a process that TestCrash starts, and kills.
const (
	crashURL  = "HEADWATER_TEST_CRASH_URL"
	crashDir  = "HEADWATER_TEST_CRASH_DIR"
	crashFrom = "HEADWATER_TEST_CRASH_FROM" // the first number; if empty, no records are appended
)

func TestMain(m *testing.M) {
	if os.Getenv(crashURL) != "" {
		if err := appendUntilKilled(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testkit.Parallel(16) // most tests wait for timers
	os.Exit(m.Run())
}

// appendUntilKilled runs a component and appends profiles faster than it can send
// them. It prints the number of each that Append has taken.
func appendUntilKilled() error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	args := queued(os.Getenv(crashURL))
	args.Queue.MaxBytes = 64 << 30 // far more than comes
	c, err := newComponent(component.Options{
		ID: "pyroscope.write.crash", DataPath: os.Getenv(crashDir), Registerer: prometheus.NewRegistry(),
		Logger: log.NewLogfmtLogger(log.NewSyncWriter(os.Stderr)),
	}, args, queueTuning())
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for {
		c.mu.Lock()
		started := c.phase == running
		c.mu.Unlock()
		if started {
			break
		}
		time.Sleep(time.Millisecond)
	}
	from := os.Getenv(crashFrom)
	if from == "" {
		return <-ended
	}
	number, err := strconv.Atoi(from)
	if err != nil {
		return err
	}
	of := labels.FromStrings("__name__", "process_cpu", "service_name", "crash")
	for ; ctx.Err() == nil; number++ {
		if err := c.receiver.Append(ctx, of, []*pyroscope.RawSample{{RawProfile: crashProfile(number)}}); err != nil {
			return err
		}
		if _, err := fmt.Println(number); err != nil {
			return err
		}
		if number%3 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return <-ended
}

// crashProfile returns a profile of any size, some of several pages of the log,
// that its number determines.
func crashProfile(number int) []byte {
	random := rand.New(rand.NewPCG(uint64(number), 7))
	profile := make([]byte, 8+random.IntN(1+random.IntN(1+random.IntN(200_000))))
	binary.BigEndian.PutUint64(profile, uint64(number))
	for i := 8; i < len(profile); i++ {
		profile[i] = byte(number + i)
	}
	return profile
}

// ledger is what the server has taken.
type ledger struct {
	mu    sync.Mutex
	count map[int]int // by number
	wrong int         // profiles that are not as they were made
}

func (l *ledger) take(profile []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(profile) < 8 {
		l.wrong++
		return
	}
	number := int(binary.BigEndian.Uint64(profile))
	if string(crashProfile(number)) != string(profile) {
		l.wrong++
		return
	}
	l.count[number]++
}

// TestCrash kills a process at random moments, also in the middle of its writes and
// pushes, while the server is well or not, and starts it again. In the end all that
// Append has taken has arrived, and no kill has made more than one profile arrive
// twice. HEADWATER_CRASHES sets the number of kills.
func TestCrash(t *testing.T) {
	t.Parallel()
	kills := 12
	if text := os.Getenv("HEADWATER_CRASHES"); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	save := record.Test(t, "crash", fmt.Sprintf("make -C integration crash CRASHES=%d", kills))
	taken := &ledger{count: map[int]int{}}
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	var mu sync.Mutex // of the answers' dice
	dice := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	s := newServer(t)
	s.keep = false
	s.set(func(_ int, request *pushRequest) error {
		if dice(10) == 0 {
			return connect.NewError(connect.CodeUnavailable, io.ErrUnexpectedEOF)
		}
		for _, series := range request.Msg.Series {
			for _, sample := range series.Samples {
				taken.take(sample.RawProfile)
			}
		}
		return nil
	})
	down := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}

	dir := t.TempDir()
	acknowledged := map[int]bool{}
	next, torn, dropped, killed := 0, 0, 0, 0
	for range kills {
		if dice(3) == 0 {
			s.wrap(down) // profiles pile up
		} else {
			s.wrap(nil)
		}
		p := startCrasher(t, s.URL, dir, strconv.Itoa(next))
		p.awaitOne(t)
		time.Sleep(time.Duration(dice(150_000)) * time.Microsecond)
		require.NoError(t, p.cmd.Process.Kill())
		numbers, log := p.end(t)
		killed++
		torn += strings.Count(log, "cut off the end")
		dropped += strings.Count(log, "dropped profiles")
		for _, n := range numbers {
			acknowledged[n] = true
			next = max(next, n+1)
		}
		next++ // one more may have been taken without its number being printed
	}

	s.wrap(nil)
	p := startCrasher(t, s.URL, dir, "")
	missing := func() int {
		taken.mu.Lock()
		defer taken.mu.Unlock()
		n := 0
		for number := range acknowledged {
			if taken.count[number] == 0 {
				n++
			}
		}
		return n
	}
	for last, since := missing(), time.Now(); last > 0 &&
		time.Since(since) < 2*time.Minute; time.Sleep(20 * time.Millisecond) {
		if now := missing(); now < last {
			last, since = now, time.Now()
		}
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	_, log := p.end(t)
	torn += strings.Count(log, "cut off the end")
	dropped += strings.Count(log, "dropped profiles")

	lost, twice := missing(), 0
	taken.mu.Lock()
	defer taken.mu.Unlock()
	for _, n := range taken.count {
		twice += n - 1
	}
	t.Logf("%d kills, %d profiles acknowledged, %d arrived: %d lost, %d twice, %d torn ends cut off", killed,
		len(acknowledged), len(taken.count), lost, twice, torn)
	require.Zero(t, dropped, "messages of dropped profiles")
	require.Zero(t, taken.wrong, "profiles that are not as they were made")
	require.Zero(t, lost, "profiles lost")
	require.LessOrEqual(t, twice, killed, "profiles sent twice")
	require.Greater(t, len(acknowledged), killed)
	save(map[string]int{"kills": killed, "acknowledged": len(acknowledged), "arrived": len(taken.count), "lost": lost,
		"twice": twice, "torn": torn})
}

// crasher is a process to be killed.
type crasher struct {
	cmd   *exec.Cmd
	first chan struct{} // closed with the first number it prints
	out   chan []int    // all numbers, sent when it ends
	log   strings.Builder
}

func startCrasher(t *testing.T, url, dir, from string) *crasher {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &crasher{cmd: exec.Command(self), first: make(chan struct{}), out: make(chan []int, 1)}
	p.cmd.Env = append(os.Environ(), crashURL+"="+url, crashDir+"="+dir, crashFrom+"="+from)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.log
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		var numbers []int
		in := bufio.NewScanner(stdout)
		for in.Scan() {
			if n, err := strconv.Atoi(in.Text()); err == nil {
				if numbers = append(numbers, n); len(numbers) == 1 {
					close(p.first)
				}
			}
		}
		p.out <- numbers
	}()
	return p
}

func (p *crasher) awaitOne(t *testing.T) {
	t.Helper()
	select {
	case <-p.first:
	case <-time.After(2 * time.Minute):
		t.Fatalf("nothing is appended: %s", p.log.String())
	}
}

// end waits for the process and returns the numbers that it has printed, and its
// log.
func (p *crasher) end(t *testing.T) ([]int, string) {
	t.Helper()
	numbers := <-p.out
	_ = p.cmd.Wait() // killed
	return numbers, p.log.String()
}
