// Command kernels runs a package's tests on other Linux kernels and CPUs, in qemu machines that run one test each:
//
//	go run ./integration/kernels [-cells 5.10/amd64,6.12/arm64] [-package ./ebpf/kernel] [-run Load] [-v]
//	go run ./integration/kernels [-cells 6.12/amd64] -program FILE [-file NAME=FILE]... [-- ARGUMENTS]
//
// The second form runs a static program instead of tests, with further files in the root, and prints its output.
//
// The kernels are Debian's. They are downloaded once into the user's cache by an apt with a private root, which does
// not change the host.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// cell is one line of the matrix.
type cell struct {
	version string // of the kernel, such as 6.12
	arch    string // as Go and Debian call it
}

func (c cell) String() string { return c.version + "/" + c.arch }

const defaultCells = "5.10/amd64,6.1/amd64,6.12/amd64,7.2/amd64,6.1/arm64,6.12/arm64"

func main() {
	cells := flag.String("cells", defaultCells, "kernel versions and architectures")
	pkg := flag.String("package", "./ebpf/kernel", "the package whose tests are run")
	run := flag.String("run", ".", "the tests to run, as for go test")
	verbose := flag.Bool("v", false, "print the whole output of the tests that pass, too")
	limit := flag.Duration("timeout", 5*time.Minute, "for one kernel")
	program := flag.String("program", "", "a static program to run in place of tests")
	cpus := flag.Int("cpus", 1, "how many CPUs a machine has; on arm64 two or more")
	counted := flag.Bool("counted", false, "have the machine's time go by instructions, and not at all while it waits")
	files := map[string]string{}
	flag.Func("file", "NAME=FILE: a file that the machine has in its root; may be repeated", func(text string) error {
		name, path, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return errors.New("want NAME=FILE")
		}
		files[name] = path
		return nil
	})
	flag.Parse()
	g := guestWork{pkg: *pkg, program: *program, files: files, limit: *limit, cpus: *cpus, counted: *counted,
		arguments: flag.Args()}
	if *program == "" {
		g.arguments = []string{"-test.run=" + *run, "-test.v", "-test.timeout=" + limit.String()}
	}
	if err := g.runOn(*cells, *verbose || *program != ""); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

// guestWork is the work of a machine.
type guestWork struct {
	pkg       string            // package of the tests, unless there is a program
	program   string            // a static program
	arguments []string          // of the tests or the program
	files     map[string]string // additional files in the root: paths on the host, by name
	limit     time.Duration
	cpus      int
	counted   bool // its clock counts instructions
}

// runOn runs the work on the cells one after the other and returns an error that names the failed cells.
func (g *guestWork) runOn(cells string, verbose bool) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	store := kernelStore{dir: filepath.Join(cache, "headwater-test", "kernels")}
	var failed []string
	for _, text := range strings.Split(cells, ",") {
		version, arch, ok := strings.Cut(text, "/")
		if !ok {
			return fmt.Errorf("cell %q: want VERSION/ARCHITECTURE", text)
		}
		c := cell{version, arch}
		begin := time.Now()
		output, err := g.runOnOne(&store, c)
		if err != nil {
			failed = append(failed, c.String())
			fmt.Printf("FAIL  %-12s %.0f s: %v\n%s\n", c, time.Since(begin).Seconds(), err, output)
			continue
		}
		fmt.Printf("ok    %-12s %.0f s\n", c, time.Since(begin).Seconds())
		if verbose {
			fmt.Println(output)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed on %s", strings.Join(failed, ", "))
	}
	return nil
}

// runOnOne runs the work on one kernel and returns its output.
func (g *guestWork) runOnOne(store *kernelStore, c cell) (string, error) {
	image, err := store.image(c)
	if err != nil {
		return "", err
	}
	work, err := os.MkdirTemp("", "headwater-kernels-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	program, guest := g.program, filepath.Join(work, "guest")
	if program == "" {
		program = filepath.Join(work, "test")
		if err := goTool(c.arch, "test", "-c", "-o", program, g.pkg); err != nil {
			return "", err
		}
	}
	if err := goTool(c.arch, "build", "-buildvcs=false", "-o", guest, "./integration/kernels/guest"); err != nil {
		return "", err
	}
	files := maps.Clone(g.files)
	files["init"], files["test"] = guest, program
	archive := filepath.Join(work, "initramfs")
	if err := writeInitramfs(archive, files, g.arguments); err != nil {
		return "", err
	}
	console, err := g.bootGuest(c, image, archive)
	return verdict(console, err)
}

func goTool(arch string, args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, out)
	}
	return nil
}

// bootGuest starts the machine and returns its console output after it has been turned off.
//
// It uses emulation only: the kernels hang under KVM inside another virtual machine. The CPUs of an x86 guest take
// turns: when qemu emulates them in parallel, a kernel that patches its own code while another CPU executes it fails.
func (g *guestWork) bootGuest(c cell, image, archive string) (string, error) {
	var args []string
	var program, console string
	switch c.arch {
	case "amd64":
		program, console = "qemu-system-x86_64", "ttyS0"
		args = []string{"-accel", "tcg,thread=single", "-machine", "pc", "-cpu", "max",
			"-smp", fmt.Sprint(g.cpus)}
	case "arm64":
		program, console = "qemu-system-aarch64", "ttyAMA0"
		args = []string{"-accel", "tcg,thread=multi", "-machine", "virt,gic-version=3", "-cpu", "max,pauth-impdef=on,sve=off",
			"-smp", fmt.Sprint(max(g.cpus, 2))}
	default:
		return "", fmt.Errorf("no machine for architecture %q", c.arch)
	}
	args = append(args, "-m", "2048", "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio",
		"-no-reboot",
		"-kernel", image, "-initrd", archive, "-append", "console="+console+" panic=-1 quiet mitigations=off")
	if g.counted {
		args = append(args, "-icount", "shift=1,sleep=off") // 2 ns each
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.limit)
	defer cancel()
	var text bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil {
		return text.String(), fmt.Errorf("%s: %w", program, err)
	}
	return text.String(), nil
}

var (
	beginMark = regexp.MustCompile(`(?s)^.*guest: begin\r?\n`)
	exitMark  = regexp.MustCompile(`guest: exit (\d+)`)
)

// verdict extracts the test's output from the console output. A machine that stopped without printing the exit code has
// crashed or hung.
func verdict(console string, err error) (string, error) {
	exit := exitMark.FindStringSubmatchIndex(console)
	if err != nil || exit == nil {
		return console, fmt.Errorf("the machine did not come to an end: %v", err)
	}
	output := strings.ReplaceAll(beginMark.ReplaceAllString(console[:exit[0]], ""), "\r", "")
	if code := console[exit[2]:exit[3]]; code != "0" {
		return output, fmt.Errorf("exit code %s", code)
	}
	return output, nil
}
