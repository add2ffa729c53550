package elffile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestMapSection compares mapped sections with the results of Section, in every form of
// compression, after the file is closed.
func TestMapSection(t *testing.T) {
	plain := compile(t, "int main(void) { return 0; }", "-g")
	for _, form := range []string{"none", "zlib", "zlib-gnu", "zstd"} {
		t.Run(form, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "program")
			run(t, "objcopy", "--compress-debug-sections="+form, plain, path)
			f := open(t, path)
			spill := &Spill{Dir: t.TempDir()}
			for _, name := range []string{".debug_info", ".debug_abbrev", ".debug_str", ".text"} {
				want, err := open(t, plain).Section(name)
				if err != nil {
					t.Fatal(err)
				}
				m, err := f.MapSection(name, spill)
				if err != nil {
					t.Fatal(err)
				}
				f.Close()
				if f, err = Open(path); err != nil {
					t.Fatal(err)
				}
				m.Drop()
				if !bytes.Equal(m.Data, want.Data) {
					t.Errorf("%s: %d bytes that differ from the %d of the section", name, len(m.Data), len(want.Data))
				}
				m.Close()
			}
			f.Close()
			if _, err := f.MapSection(".nothing", spill); !errors.Is(err, ErrNoSection) {
				t.Errorf("a section that is missing: %v", err)
			}
			if used := spill.Used(); used != 0 {
				t.Errorf("%d bytes are still in use", used)
			}
			if left, _ := os.ReadDir(spill.Dir); len(left) > 0 {
				t.Errorf("files are left: %v", left)
			}
		})
	}
}

func TestMapSectionLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	run(t, "objcopy", "--compress-debug-sections=zlib", compile(t, "int main(void) { return 0; }", "-g"), path)
	f := open(t, path)
	spill := &Spill{Dir: t.TempDir(), Limit: 16}
	for range 2 {
		if _, err := f.MapSection(".debug_info", spill); !errors.Is(err, ErrTooLarge) {
			t.Errorf("a section above the limit: %v", err)
		}
	}
	if used := spill.Used(); used != 0 {
		t.Errorf("%d bytes are in use", used)
	}
}

func TestAltLink(t *testing.T) {
	for _, tt := range []struct{ name, section, content, file, id string }{
		{"GNU", ".gnu_debugaltlink", "../common.debug\x00\x01\xab\xff", "../common.debug", "01abff"},
		{"DWARF 5", ".debug_sup", "\x05\x00\x00common\x00\x02\x12\x34", "common", "1234"},
		{"the supplementary file itself", ".debug_sup", "\x05\x00\x01\x00\x02\x12\x34", "", ""},
		{"a checksum that is too long", ".debug_sup", "\x05\x00\x00common\x00\x7f\x12\x34", "", ""},
		{"no end", ".gnu_debugaltlink", "common", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			content, path := filepath.Join(dir, "content"), filepath.Join(dir, "program")
			if err := os.WriteFile(content, []byte(tt.content), 0o644); err != nil {
				t.Fatal(err)
			}
			run(t, "objcopy", "--add-section", tt.section+"="+content, compile(t, "int main(void) { return 0; }"), path)
			name, id, ok := open(t, path).AltLink()
			if name != tt.file || id != tt.id || ok != (tt.file != "") {
				t.Errorf("got %q, %q, %t", name, id, ok)
			}
		})
	}
}

// TestCreateIn: a container's image may lack /var/tmp.
func TestCreateIn(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	file, err := createIn([]string{missing, dir})
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	if filepath.Dir(file.Name()) != dir {
		t.Errorf("the file is %s, not in %s", file.Name(), dir)
	}
	if _, err = createIn([]string{missing}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a folder: %v", err)
	}
}
