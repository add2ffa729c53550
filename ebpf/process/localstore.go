package process

import (
	"sync"
	"time"

	"github.com/headwater/headwater/ebpf/language"
	"github.com/headwater/headwater/ebpf/unwind"
)

// localPages bounds the pages of a LocalStore: some 100 MiB.
const localPages = 1 << 14

// LocalStore is a Store for walks in this process only: no kernel reads it. Safe for concurrent use.
type LocalStore struct {
	mu    sync.Mutex
	next  uint32
	pages map[localPage]*unwind.Page
}

type localPage struct {
	directory unwind.Directory
	page      uint64
}

// NewLocalStore returns an empty store.
func NewLocalStore() *LocalStore { return &LocalStore{pages: map[localPage]*unwind.Page{}} }

// AddDirectory implements Store.
func (s *LocalStore) AddDirectory(first, pages uint32, shift uint8) (unwind.Directory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return unwind.Directory{Word: s.next, First: first, Pages: pages, Shift: shift}, nil
}

// SetPage implements Store. If there are too many pages, it clears the store first.
func (s *LocalStore) SetPage(d unwind.Directory, page uint64, p *unwind.Page) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pages) >= localPages {
		clear(s.pages)
	}
	s.pages[localPage{d, page}] = p
	return nil
}

// Rule implements Store.
func (s *LocalStore) Rule(d unwind.Directory, vaddr uint64) (unwind.WideRule, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pages[localPage{d, d.Page(vaddr)}]; p != nil {
		return p.Rule(vaddr), true
	}
	return unwind.WideRule{}, false
}

// Resident implements Store.
func (s *LocalStore) Resident(d unwind.Directory, page uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages[localPage{d, page}] != nil
}

// Unbuilt implements Store. It returns none, because only walks in the kernel need pages that are built ahead.
func (*LocalStore) Unbuilt(unwind.Directory, uint64, uint64) []uint64 { return nil }

// DropPage implements Store.
func (s *LocalStore) DropPage(d unwind.Directory, page uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, localPage{d, page})
}

// RemoveDirectory implements Store.
func (s *LocalStore) RemoveDirectory(d unwind.Directory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := range s.pages {
		if at.directory == d {
			delete(s.pages, at)
		}
	}
}

// AddInterpreter implements Store.
func (s *LocalStore) AddInterpreter(*language.Spec) (number uint16, id uint32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return uint16(s.next), s.next, nil
}

// SetProcess implements Store: the Tracker knows the processes.
func (*LocalStore) SetProcess(uint32, unwind.Process) error { return nil }

// DeleteProcess implements Store.
func (*LocalStore) DeleteProcess(uint32) error { return nil }

// RemoveInterpreter implements Store.
func (*LocalStore) RemoveInterpreter(uint16) {}

// SetProgram implements Store.
func (*LocalStore) SetProgram(unwind.Program, uint16) error { return nil }

// EvictUnused implements Store. It is a no-op, because the store is not used for long.
func (*LocalStore) EvictUnused(time.Duration) {}
