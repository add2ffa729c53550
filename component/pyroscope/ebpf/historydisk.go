package ebpf

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/go-kit/log/level"
)

const (
	leastHistoryDisk = 1 << 20         // bytes: the lowest history_disk_limit
	historyPatience  = 2 * time.Second // for what waits to be written at the end
)

// checkHistoryDisk returns an error if arguments need a folder that there is not.
func (c *Component) checkHistoryDisk(args Settings) error {
	if args.HistoryDiskLimit > 0 && c.opts.DataPath == "" {
		return errors.New("history_disk_limit: this program gives its components no directory for data")
	}
	return nil
}

// keepHistoryOnDisk has the history of the page kept on disk as args say.
func (c *Component) keepHistoryOnDisk(args Settings) {
	c.page.SetDisk(filepath.Join(c.opts.DataPath, "history"), int64(args.HistoryDiskLimit))
}

// logHistoryDisk logs what the page says of its history on disk.
func (c *Component) logHistoryDisk(message string, err error) {
	if err == nil {
		level.Info(c.opts.Logger).Log("msg", message)
		return
	}
	level.Warn(c.opts.Logger).Log("msg", message, "err", err)
}

// DebugHistory is what the page keeps on disk.
type DebugHistory struct {
	Rounds   int       `river:"rounds,attr"`
	Bytes    int64     `river:"bytes,attr"`
	MaxBytes int64     `river:"max_bytes,attr"`
	Since    time.Time `river:"since,attr,optional"`
	Missing  uint64    `river:"rounds_missing,attr"` // that could not be written
	Problem  string    `river:"problem,attr,optional"`
}

// debugHistory returns nil if nothing is to be kept on disk.
func (c *Component) debugHistory() *DebugHistory {
	d, ok := c.page.Disk()
	if !ok {
		return nil
	}
	return &DebugHistory{d.Rounds, d.Bytes, d.MaxBytes, d.Since, d.Missing, d.Problem}
}

// historyTrouble says why the history is not kept on disk; it is empty if it is, or is not to be.
func (c *Component) historyTrouble() string {
	if d, _ := c.page.Disk(); d.Problem != "" {
		return "the history on disk cannot be kept: " + d.Problem
	}
	return ""
}
