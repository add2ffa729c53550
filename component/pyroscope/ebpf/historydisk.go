package ebpf

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/go-kit/log/level"
)

const (
	leastHistoryDisk = 1 << 20         // bytes: the lowest history_disk_limit
	historyPatience  = 2 * time.Second // for rounds that are not written yet when Run ends
)

// checkHistoryDisk returns an error if the arguments need a directory but the component has none.
func (c *Component) checkHistoryDisk(args Settings) error {
	if args.HistoryDiskLimit > 0 && c.opts.DataPath == "" {
		return errors.New("history_disk_limit: this program gives its components no directory for data")
	}
	return nil
}

// keepHistoryOnDisk makes the page keep its history on disk according to args.
func (c *Component) keepHistoryOnDisk(args Settings) {
	c.page.SetDisk(filepath.Join(c.opts.DataPath, "history"), int64(args.HistoryDiskLimit))
}

// logHistoryDisk logs the page's messages about its history on disk.
func (c *Component) logHistoryDisk(message string, err error) {
	if err == nil {
		level.Info(c.opts.Logger).Log("msg", message)
		return
	}
	level.Warn(c.opts.Logger).Log("msg", message, "err", err)
}

// DebugHistory describes the history that the page keeps on disk.
type DebugHistory struct {
	Rounds   int       `river:"rounds,attr"`
	Bytes    int64     `river:"bytes,attr"`
	MaxBytes int64     `river:"max_bytes,attr"`
	Since    time.Time `river:"since,attr,optional"`
	Missing  uint64    `river:"rounds_missing,attr"` // rounds that could not be written
	Problem  string    `river:"problem,attr,optional"`
}

// debugHistory returns nil if no history is kept on disk.
func (c *Component) debugHistory() *DebugHistory {
	d, ok := c.page.Disk()
	if !ok {
		return nil
	}
	return &DebugHistory{d.Rounds, d.Bytes, d.MaxBytes, d.Since, d.Missing, d.Problem}
}

// historyTrouble returns why the history cannot be kept on disk; "" if it can, or if the arguments do not ask for it.
func (c *Component) historyTrouble() string {
	if d, _ := c.page.Disk(); d.Problem != "" {
		return "the history on disk cannot be kept: " + d.Problem
	}
	return ""
}
