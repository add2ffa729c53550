package tools

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/integration/testkit/need"
	"github.com/headwater/headwater/integration/testkit/rig"
)

// client starts headwater mcp, and returns a client of it.
func client(t *testing.T, args ...string) *mcp.ClientSession {
	need.Root(t)
	cmd := exec.Command(rig.Binary(t), append([]string{"mcp"}, args...)...)
	cmd.Dir = t.TempDir()
	t.Cleanup(func() {
		left, err := os.ReadDir(cmd.Dir)
		require.NoError(t, err)
		require.Empty(t, left, "it has written a file")
	})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := c.Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, session.Close()) })
	return session
}

// call calls a tool, and returns its text and whether that is an error.
func call(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) (text string, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	require.NoError(t, err)
	require.Len(t, r.Content, 1)
	text = r.Content[0].(*mcp.TextContent).Text
	t.Logf("%s %v:\n%s", tool, args, text)
	return text, r.IsError
}

// answer is call of a tool that must not fail.
func answer(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) string {
	t.Helper()
	text, failed := call(t, s, tool, args)
	require.False(t, failed, text)
	require.Contains(t, text, "completeness: ")
	return text
}

// TestMCP: a client finds the one function that a program is busy with, its callers, and its stack.
func TestMCP(t *testing.T) {
	t.Parallel()
	s := client(t)
	program := startChain(t, "hwmcp")
	tools, err := s.ListTools(context.Background(), nil)
	require.NoError(t, err)
	require.Len(t, tools.Tools, 6)
	for _, tool := range tools.Tools {
		require.True(t, tool.Annotations.ReadOnlyHint, tool.Name)
	}
	pid := program.PID()
	top := answer(t, s, "top", map[string]any{"pid": pid, "seconds": 2})
	_, first, _ := strings.Cut(top, "functions by self (self total name binary):\n")
	first, _, _ = strings.Cut(first, "\n")
	require.Regexp(t, `^ +\d+\.\d% +\d+\.\d%  f59  hwmcp$`, first)

	recorded := answer(t, s, "record", map[string]any{"pid": pid, "seconds": 2})
	name, _, _ := strings.Cut(recorded, "\n")
	require.Equal(t, "recording-1", name)
	path := answer(t, s, "path_through", map[string]any{"profile": name, "function": "f58"})
	require.Regexp(t, `callers:\n +\d+\.\d%  f57  hwmcp\n`, path)
	require.Regexp(t, `callees:\n +\d+\.\d%  f59  hwmcp\n`, path)
	require.Contains(t, answer(t, s, "top", map[string]any{"profile": name, "by": "process"}), "hwmcp (")
	require.Contains(t, answer(t, s, "diff", map[string]any{"base": name, "new": name}), "None of ")
	// main calls f00 and so on, and sometimes asks for the time.
	require.Contains(t, answer(t, s, "stack", map[string]any{"pid": pid}), "main (")
}

// TestMCPRefuses: invalid and forbidden requests give errors that say so.
func TestMCPRefuses(t *testing.T) {
	t.Parallel()
	s := client(t)
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"top", map[string]any{"profile": "/etc/passwd"}, "files are not allowed"},
		{"top", map[string]any{"profile": "http://127.0.0.1:1/x"}, "is not allowed"},
		{"top", map[string]any{"profile": "recording-7"}, "recordings are: none"},
		{"top", map[string]any{"seconds": 1000}, "seconds must be a whole number from 1 to 30"},
		{"top", map[string]any{"pid": 2147483647, "seconds": 1}, "2147483647"},
		{"top", map[string]any{"colour": "red"}, "colour"},
		{"top", map[string]any{"by": "colour"}, "by must be"},
		{"path_through", map[string]any{}, "function"},
		{"stack", map[string]any{"pid": -1}, "pid must be"},
		{"diff", map[string]any{"base": "", "new": "x"}, "must not be empty"},
	} {
		text, failed := call(t, s, c.tool, c.args)
		require.True(t, failed, text)
		require.Contains(t, text, c.want)
	}
}

// TestMCPFiles: with --files, only profiles of that folder are read.
func TestMCPFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	write("a.folded", "main;hot 90\nmain;cold 10\n")
	write("secret", "password hunter2\n")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(folder, "link")))
	s := client(t, "--files", folder)
	require.Contains(t, answer(t, s, "top", map[string]any{"profile": "a.folded"}), "   90.0%  90.0%  hot\n")
	for name, want := range map[string]string{
		"../x": "escapes", "link": "escapes", "missing": "no such file", ".": "regular file",
		"secret": "is not a profile",
	} {
		text, failed := call(t, s, "top", map[string]any{"profile": name})
		require.True(t, failed, text)
		require.Contains(t, text, want)
		require.NotContains(t, text, "hunter2")
	}
}
