package spool

import (
	"testing"
	"time"
)

// profileBytes is the size of a usual profile.
const profileBytes = 40_000

func BenchmarkAppend(b *testing.B) {
	for name, policy := range map[string]SyncPolicy{"fsync=interval": SyncInterval, "fsync=always": SyncAlways,
		"fsync=never": SyncNever} {
		b.Run(name, func(b *testing.B) {
			o := someOptions()
			o.Sync, o.Interval, o.MaxBytes = policy, time.Second, 1<<30
			s, err := Open(b.TempDir(), o)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			data := make([]byte, profileBytes)
			b.SetBytes(profileBytes)
			for b.Loop() {
				if _, err := s.Append(Record{Seq: s.Reserve(), Size: profileBytes, Data: data}); err != nil {
					b.Fatal(err)
				}
				r, _, _ := s.Next()
				if err := s.Done(r.Seq); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen reads a spool with 256 MB that wait.
func BenchmarkOpen(b *testing.B) {
	o := someOptions()
	o.MaxBytes = 1 << 30
	dir := b.TempDir()
	s, err := Open(dir, o)
	if err != nil {
		b.Fatal(err)
	}
	const records = 256_000_000 / profileBytes
	for range records {
		if _, err := s.Append(Record{Seq: s.Reserve(), Size: profileBytes, Data: make([]byte, profileBytes)}); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(records * profileBytes)
	for b.Loop() {
		s, err := Open(dir, o)
		if err != nil {
			b.Fatal(err)
		}
		if n, _, _ := s.Usage(); n != records {
			b.Fatalf("%d of %d records", n, records)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
