package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// kernelStore keeps Debian's cloud kernels.
type kernelStore struct {
	dir   string
	ready bool // the package lists have been read
}

// image returns the path of a kernel's image, and downloads it if needed.
func (s *kernelStore) image(c cell) (string, error) {
	path := filepath.Join(s.dir, "vmlinuz-"+c.version+"-"+c.arch)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := s.prepare(); err != nil {
		return "", err
	}
	packages, err := s.candidates(c)
	if err != nil {
		return "", err
	}
	// The lists contain packages that the mirror no longer has, so the newest may fail.
	var failures []error
	for _, name := range packages {
		if err := s.download(name+":"+c.arch, path); err != nil {
			failures = append(failures, err)
			continue
		}
		fmt.Fprintf(os.Stderr, "kernels: %s is %s\n", c, name)
		return path, nil
	}
	return "", fmt.Errorf("no kernel %s to be had: %w", c, errors.Join(failures...))
}

// runApt runs a program of apt with the private root.
func (s *kernelStore) runApt(dir, program string, args ...string) ([]byte, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(s.dir, "apt", "apt.conf"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, stderr.String())
	}
	return out, nil
}

// prepare creates apt's private root, with additional suites and both architectures, on the mirror that this machine
// uses, and reads the package lists.
func (s *kernelStore) prepare() error {
	if s.ready {
		return nil
	}
	root := filepath.Join(s.dir, "apt")
	for _, dir := range []string{"etc", "state/lists/partial", "cache/archives/partial", "log"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	sources, err := sourcesList()
	if err != nil {
		return err
	}
	config := fmt.Sprintf(`Dir::Etc "%[1]s/etc"; Dir::Etc::sourcelist "%[1]s/etc/sources.list"; Dir::Etc::sourceparts "-";
Dir::State "%[1]s/state"; Dir::State::status "%[1]s/state/status"; Dir::Cache "%[1]s/cache"; Dir::Log "%[1]s/log";
APT::Architecture "amd64"; APT::Architectures { "amd64"; "arm64"; };
APT::Sandbox::User "root"; Acquire::Languages "none"; Acquire::Check-Valid-Until "false";
`, root)
	for name, text := range map[string]string{"etc/sources.list": sources, "state/status": "", "apt.conf": config} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stderr, "kernels: reading Debian's package lists")
	if _, err := s.runApt("", "apt-get", "update", "-q"); err != nil {
		return err
	}
	s.ready = true
	return nil
}

// sourcesList returns the suites that contain the kernels, on the mirrors of this machine's own apt.
func sourcesList() (string, error) {
	out, err := exec.Command("apt-get", "indextargets", "--format", "$(REPO_URI)").Output()
	if err != nil {
		return "", fmt.Errorf("apt-get indextargets: %w", err)
	}
	var text strings.Builder
	mirrors := strings.Fields(string(out))
	slices.Sort(mirrors)
	for _, mirror := range slices.Compact(mirrors) {
		suites := []string{"bullseye", "bookworm", "trixie", "trixie-backports", "sid"}
		if strings.Contains(mirror, "security") {
			suites = []string{"bullseye-security", "bookworm-security", "trixie-security"}
		}
		for _, suite := range suites {
			fmt.Fprintf(&text, "deb [arch=amd64,arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n",
				mirror, suite)
		}
	}
	return text.String(), nil
}

// candidates returns the packages that contain images of a kernel version, newest first. From 6.19 on, linux-image
// depends on linux-binary, which contains the image.
func (s *kernelStore) candidates(c cell) ([]string, error) {
	pattern := fmt.Sprintf(`^linux-(image|binary)-%s[.-].*-cloud-%s$`, regexp.QuoteMeta(c.version), c.arch)
	out, err := s.runApt("", "apt-cache", "search", "--names-only", pattern)
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		names = append(names, strings.Fields(line)[0])
	}
	slices.SortFunc(names, func(a, b string) int {
		if binary := strings.Count(b, "-binary-") - strings.Count(a, "-binary-"); binary != 0 {
			return binary
		}
		if longer := len(b) - len(a); longer != 0 { // 6.12.117 is newer than 6.12.57
			return longer
		}
		return strings.Compare(b, a)
	})
	return names, nil
}

// download unpacks the image of a package to a path.
func (s *kernelStore) download(name, path string) error {
	work, err := os.MkdirTemp(s.dir, "download-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if _, err := s.runApt(work, "apt-get", "download", "-q", name); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("%s: %d files downloaded (%v)", name, len(files), err)
	}
	if out, err := exec.Command("dpkg", "-x", files[0], work).CombinedOutput(); err != nil {
		return fmt.Errorf("dpkg -x %s: %w\n%s", files[0], err, out)
	}
	return filepath.WalkDir(work, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Type().IsRegular() && strings.HasPrefix(entry.Name(), "vmlinuz") {
			return os.Rename(file, path)
		}
		return nil
	})
}
