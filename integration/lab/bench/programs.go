package main

import (
	"fmt"
	"path/filepath"
	"time"
)

// program is a program whose stacks are hard to unwind: it has code without call frame information, or large or many
// frames.
type program struct {
	comm   string // of the threads to examine
	title  string
	needs  string // required tool
	script string // runs repeatedly in the workshop's directory; %[1]s is testdata
}

var programs = []program{
	{"ffmpeg", "ffmpeg encoding with x264 (hand-written assembly)", "ffmpeg",
		`: %[1]s; ffmpeg -y -loglevel quiet -f lavfi -i testsrc2=duration=2:size=640x360 -c:v libx264 -preset fast film.mp4`},
	{"php", "php matching regular expressions (compiled by PCRE)", "php",
		`: %[1]s; php -r '$text = str_repeat(file_get_contents("/usr/share/common-licenses/GPL-3"), 100);
			for ($i = 0; $i < 5; $i++) { preg_match_all("/([a-z]+) ([a-z]+)(ing|ed)/", $text, $m);
				preg_replace("/(a|[b-f]+)+x?(?!z)/i", "<$1>", $text); }'`},
	{"java", "java, interpreted and compiled by HotSpot", "javac",
		`[ -e Work.class ] || javac -d . %[1]s/Work.java; java Work 4`},
}

func (p program) key() string { return "complete program " + p.comm }

// measurePrograms measures the share of complete stacks in such programs.
func (b *bench) measurePrograms(i int) error {
	p, err := b.launch(i, settings{rate: b.rate, interval: stackInterval, stacks: true})
	if err != nil {
		return err
	}
	defer p.stopProfiler()
	time.Sleep(afterStart)
	testdata, err := filepath.Abs(source(""))
	if err != nil {
		return err
	}
	for _, one := range programs {
		if findTool(one.needs) == "" {
			b.skipped = append(b.skipped, fmt.Sprintf("%s is not installed", one.needs))
			continue
		}
		if _, err := p.sink.stacks(); err != nil {
			return err
		}
		running, err := b.shell(fmt.Sprintf("cd %s && while :; do %s || exit; done",
			b.dir, fmt.Sprintf(one.script, testdata)))
		if err != nil {
			return err
		}
		time.Sleep(b.time)
		running.stopPrograms()
		time.Sleep(flushTime(stackInterval))
		stacks, err := p.sink.stacks()
		if err != nil {
			return err
		}
		var all share
		for _, s := range stacks {
			if s.comm == one.comm && s.hasUserPart() {
				all.addStacks(s)
			}
		}
		b.addShare(one.key(), i, all)
	}
	return nil
}
