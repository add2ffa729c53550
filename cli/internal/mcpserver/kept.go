package mcpserver

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/google/pprof/profile"
)

// Limits of the kept recordings.
const (
	maxKept  = 8
	maxBytes = 32 << 20 // compressed
)

const namePrefix = "recording-"

// recordings are compressed profiles in memory, newest last. The zero value is empty.
type recordings struct {
	mu   sync.Mutex
	made int
	all  []recording
}

type recording struct {
	name string
	data []byte
}

// keepProfile stores a profile, and returns its name. It removes the oldest ones beyond the limits.
func (r *recordings) keepProfile(p *profile.Profile) (name string, err error) {
	var data bytes.Buffer
	if err := p.Write(&data); err != nil {
		return "", err
	}
	if data.Len() > maxBytes {
		return "", fmt.Errorf("the recording has more than %d MiB; record for less time", maxBytes>>20)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made++
	name = fmt.Sprint(namePrefix, r.made)
	r.all = append(r.all, recording{name, data.Bytes()})
	for len(r.all) > maxKept || r.bytes() > maxBytes {
		r.all = r.all[1:]
	}
	return name, nil
}

func (r *recordings) bytes() (sum int) {
	for _, k := range r.all {
		sum += len(k.data)
	}
	return sum
}

// profileNamed returns the kept profile with that name. It returns nil without an error for a name that no recording
// can have, such as a file's name, and an error for a recording that does not exist or is no longer kept.
func (r *recordings) profileNamed(name string) (*profile.Profile, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, k := range r.all {
		if k.name == name {
			return profile.ParseData(k.data)
		}
		names = append(names, k.name)
	}
	if !strings.HasPrefix(name, namePrefix) {
		return nil, nil
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return nil, fmt.Errorf("there is no recording %.100q; recordings are: %s", name, strings.Join(names, ", "))
}
