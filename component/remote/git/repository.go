package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/headwater/headwater/component"
)

// commandTimeout bounds one run of git, so that an unresponsive server does not block a reload indefinitely.
const commandTimeout = 2 * time.Minute

// maxFile bounds the file that is read, in bytes.
const maxFile = 16 << 20

// repository is a bare clone of a repository on disk.
type repository struct {
	arguments Arguments // Repository without credentials
	dir       string
}

// newRepository returns the clone of the repository that arguments name, in its own directory below dataPath. It does
// not run git or write files.
func newRepository(dataPath string, arguments Arguments) *repository {
	arguments.separateCredentials()
	name := sha256.Sum256([]byte(arguments.Repository))
	return &repository{arguments: arguments, dir: filepath.Join(dataPath, fmt.Sprintf("%x.git", name[:8]))}
}

// fetch updates the clone.
func (r *repository) fetch(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(r.dir, "HEAD")); err != nil {
		if err := os.MkdirAll(filepath.Dir(r.dir), 0o750); err != nil {
			return err
		}
		if _, err := r.runGit(ctx, "init", "--quiet", "--bare", "--template=", r.dir); err != nil {
			return err
		}
	}
	_, err := r.runGit(ctx, "fetch", "--quiet", "--force", "--prune", "--no-tags", "--", r.arguments.Repository,
		"+HEAD:refs/remotes/origin/HEAD", "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
	if err != nil {
		return fmt.Errorf("fetching %s: %w", r.arguments.Repository, err)
	}
	return nil
}

// clonePath returns the path of the file in the repository; "" is the root folder.
func (r *repository) clonePath() string {
	return strings.TrimPrefix(path.Clean("/"+r.arguments.Path), "/")
}

// readFile returns a file of a commit from the clone.
func (r *repository) readFile(ctx context.Context, commit, file string) (string, error) {
	size, err := r.runGit(ctx, "--git-dir", r.dir, "cat-file", "-s", commit+":"+file)
	if err != nil {
		return "", fmt.Errorf("%s has no file %s at %s: %w", r.arguments.Repository, file, r.arguments.Revision, err)
	}
	var bytes int64
	if _, err := fmt.Sscan(size, &bytes); err != nil || bytes > maxFile {
		return "", fmt.Errorf("%s in %s is larger than %d MiB", file, r.arguments.Repository, maxFile>>20)
	}
	content, err := r.runGit(ctx, "--git-dir", r.dir, "cat-file", "blob", commit+":"+file)
	if err != nil {
		return "", fmt.Errorf("%s in %s is no file: %w", file, r.arguments.Repository, err)
	}
	return content, nil
}

// isFolder reports whether a path of a commit is a folder.
func (r *repository) isFolder(ctx context.Context, commit, path string) bool {
	kind, err := r.runGit(ctx, "--git-dir", r.dir, "cat-file", "-t", commit+":"+path)
	return err == nil && strings.TrimSpace(kind) == "tree"
}

// readFolder returns the configuration files directly in a folder of a commit, by name. Together they may be as large
// as one file.
func (r *repository) readFolder(ctx context.Context, commit, folder string) (map[string]string, error) {
	list, err := r.runGit(ctx, "--git-dir", r.dir, "ls-tree", "-z", commit+":"+folder)
	if err != nil {
		return nil, fmt.Errorf("list folder %s of %s: %w", folder, r.arguments.Repository, err)
	}
	texts, size := map[string]string{}, 0
	for line := range strings.SplitSeq(list, "\x00") { // mode, type, object; after a tab the name
		about, name, _ := strings.Cut(line, "\t")
		if !strings.Contains(about, " blob ") || !component.IsConfigFile(name) {
			continue
		}
		text, err := r.readFile(ctx, commit, path.Join(folder, name))
		if err != nil {
			return nil, err
		}
		if size += len(text); size > maxFile {
			return nil, fmt.Errorf("the configuration files in %s of %s have more than %d MiB", folder,
				r.arguments.Repository, maxFile>>20)
		}
		texts[name] = text
	}
	return texts, nil
}

// checkOut writes all files of a commit to a folder of its own, and returns the folder. It keeps the folder of the
// commit before: components that run may still use it.
func (r *repository) checkOut(ctx context.Context, commit string) (string, error) {
	all := strings.TrimSuffix(r.dir, ".git") + ".files"
	folder := filepath.Join(all, commit)
	now := time.Now()
	if err := os.Chtimes(folder, now, now); err == nil { // removeOld keeps the folders of the newest times
		return folder, nil
	}
	partial := folder + ".part"
	err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o750))
	if err == nil {
		_, err = r.runGit(ctx, "--git-dir", r.dir, "--work-tree", partial,
			"checkout", "--quiet", "--force", commit, "--", ".")
	}
	if err == nil {
		err = os.Rename(partial, folder)
	}
	if err != nil {
		return "", fmt.Errorf("write the files of %s: %w", r.arguments.Repository, err)
	}
	return folder, removeOld(all, 2)
}

// removeOld removes the folders in a folder except the newest ones.
func removeOld(folder string, newest int) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	changed := func(e os.DirEntry) time.Time {
		info, err := e.Info()
		if err != nil {
			return time.Time{} // it has been removed
		}
		return info.ModTime()
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return changed(b).Compare(changed(a)) })
	for _, old := range entries[min(newest, len(entries)):] {
		err = errors.Join(err, os.RemoveAll(filepath.Join(folder, old.Name())))
	}
	return err
}

// resolve returns the commit for the revision: the tag with that name, else the remote branch, else the result of git
// rev-parse.
func (r *repository) resolve(ctx context.Context) (string, error) {
	for _, name := range []string{"refs/tags/" + r.arguments.Revision, "refs/remotes/origin/" + r.arguments.Revision,
		r.arguments.Revision} {
		commit, err := r.runGit(ctx, "--git-dir", r.dir, "rev-parse", "--quiet", "--verify", "--end-of-options",
			name+"^{commit}")
		if err == nil {
			return strings.TrimSpace(commit), nil
		}
		if missing := new(missingProgram); errors.As(err, &missing) {
			return "", err
		}
	}
	return "", fmt.Errorf("%s has no revision %s", r.arguments.Repository, r.arguments.Revision)
}

// missingProgram says that git is not installed.
type missingProgram struct{ err error }

func (e *missingProgram) Error() string {
	return "the git program is needed to read a repository, and cannot be run: " + e.err.Error() +
		"; install it (Debian: apt-get install git)"
}

// runGit runs git and returns its output. Its errors contain git's last message.
func (r *repository) runGit(ctx context.Context, arguments ...string) (string, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return "", &missingProgram{err}
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	environment, cleanUp, err := r.environment()
	if err != nil {
		return "", err
	}
	defer cleanUp()

	if arguments[0] == "fetch" {
		arguments = append([]string{"--git-dir", r.dir}, arguments...)
	}
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // git starts child processes: ssh, git-remote-https
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Start()
	if err == nil {
		if raised, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil && raised > 20 { // a negative nice value
			_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, 0) // git is less urgent than this process
		}
		err = cmd.Wait()
	}
	if err != nil {
		switch {
		case ctx.Err() == context.DeadlineExceeded:
			err = fmt.Errorf("git did not end within %s", commandTimeout)
		case complaint.Len() > 0:
			err = errors.New(lastLine(complaint.String()))
		}
		return "", err
	}
	return out.String(), nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "fatal: ") { // the cause; hints follow
			return line
		}
	}
	return lines[len(lines)-1]
}

// environment returns environment variables that let git run without prompts, ignoring the machine's and the users' own
// git configuration, with the credentials. The credentials are in variables or in files that only this user can read,
// never on the command line. cleanUp removes the files.
func (r *repository) environment() (variables []string, cleanUp func(), err error) {
	variables = []string{
		"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_ALLOW_PROTOCOL=file:git:http:https:ssh", "LC_ALL=C",
	}
	if auth := r.arguments.BasicAuth; auth != nil {
		credentials := base64.StdEncoding.EncodeToString([]byte(auth.Username + ":" + string(auth.Password)))
		variables = append(variables, "GIT_CONFIG_COUNT=1",
			"GIT_CONFIG_KEY_0=http."+r.arguments.Repository+".extraHeader",
			"GIT_CONFIG_VALUE_0=Authorization: Basic "+credentials)
	}
	if r.arguments.SSHKey == nil {
		return variables, func() {}, nil
	}
	ssh, cleanUp, err := r.arguments.SSHKey.environment()
	return append(variables, ssh...), cleanUp, err
}

// environment returns variables that let git call ssh with the key.
func (k *SSHKey) environment() (variables []string, cleanUp func(), err error) {
	dir, err := os.MkdirTemp("", "headwater-git-")
	if err != nil {
		return nil, nil, err
	}
	cleanUp = func() { _ = os.RemoveAll(dir) } // only this user can read leftovers
	defer func() {
		if err != nil {
			cleanUp()
		}
	}()
	file := k.KeyFile
	if k.Key != "" {
		file = filepath.Join(dir, "key")
		if err := os.WriteFile(file, []byte(strings.TrimSpace(string(k.Key))+"\n"), 0o600); err != nil {
			return nil, nil, err
		}
	}
	batch := "yes"
	if k.Passphrase != "" {
		batch = "no"
		ask := filepath.Join(dir, "passphrase")
		if err := os.WriteFile(ask, []byte("#!/bin/sh\nprintf '%s\\n' \"$HEADWATER_PASSPHRASE\"\n"), 0o700); err != nil {
			return nil, nil, err
		}
		variables = append(variables, "HEADWATER_PASSPHRASE="+string(k.Passphrase), "SSH_ASKPASS="+ask,
			"SSH_ASKPASS_REQUIRE=force")
	}
	command := fmt.Sprintf("ssh -o BatchMode=%s -o IdentitiesOnly=yes -i %s -l %s", batch, quote(file), quote(k.Username))
	return append(variables, "GIT_SSH_COMMAND="+command), cleanUp, nil
}

// quote quotes a word for the shell that runs the command for git.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
