package unwindtable

import (
	"encoding/hex"
	"slices"
	"testing"
)

// TestGoroutineOfReleases has the code that shows where Go's runtime keeps a goroutine's registers,
// in the form of the linkers of several releases.
func TestGoroutineOfReleases(t *testing.T) {
	for name, c := range map[string]struct {
		machine     goCode
		systemstack string
		morestack   string
		from, to    int // range of systemstack on the thread's stack
		losesFP     bool
		path        []int64
		fp          int64
	}{
		"Go 1.12": {
			machine: goX86{},
			systemstack: "488b7c240864488b0425f8ffffff488b5830483b43507478488b134839d07470483b83c0000000756f488d35c0ffffff" +
				"488970404889603848894048488968686448891425f8ffffff488b5a384883eb08488d1578c0fdff4889134889dc4889" +
				"fa488b3fffd764488b0425f8ffffff488b5830488b83c00000006448890425f8ffffff488b603848c7403800000000c3" +
				"4889fa488b3fffe7488d053108ffffffd0cd03",
			morestack: "64488b1c25f8ffffff488b5b30488b336448393425f8ffffff750ae8a0a0fdffe8db170000488b73506448393425f8ff" +
				"ffff750ae8c7a0fdffe8c2170000488b44240848894310488d4424104889430864488b3425f8ffffff48897318488b04" +
				"244889464048897648488d4424084889463848896e6848895650488b1b6448891c25f8ffffff488b6338e8f1dafeffe8" +
				"6c170000c3",
			from: 94, to: 135, losesFP: false, path: []int64{-8, 48, 192, 56}, fp: 104,
		},
		"Go 1.16, position-independent": {
			machine: goX86{},
			systemstack: "488b7c240848c7c1f8ffffff64488b01488b5830483b43507470488b134839d07468483b83c00000007567488d35aeff" +
				"ffff4889704048896038488940484889686864488911488b5a384883eb08488d15eb3cfdff4889134889dc4889fa488b" +
				"3fffd748c7c1f8ffffff64488b01488b5830488b83c000000064488901488b603848c7403800000000c34889fa488b3f" +
				"ffe7488d0547a3feffffd0cd03",
			morestack: "48c7c1f8ffffff64488b19488b5b30488b3364483931750ae8e31efdffe81e1a0000488b735064483931750ae80f1ffd" +
				"ffe80a1a0000488b44240848894310488d4424104889430848c7c1f8ffffff64488b3148897318488b04244889464048" +
				"897648488d4424084889463848896e6848895650488b1b64488919488b6338e85c76feffe8b7190000c3",
			from: 91, to: 129, losesFP: false, path: []int64{-8, 48, 192, 56}, fp: 104,
		},
		"Go 1.19": {
			machine: goX86{},
			systemstack: "488b7c240864488b0425f8ffffff488b5830483b4350745b488b134839d07453483b83c00000007552e8d2f1ffff6448" +
				"891425f8ffffff4989d6488b5a384889dc4889fa488b3fffd764488b0425f8ffffff488b5830488b83c0000000644889" +
				"0425f8ffffff488b603848c7403800000000c34889fa488b3fffe7488d05be460000ffd0cd03",
			morestack: "64488b1c25f8ffffff488b5b30488b336448393425f8ffffff750ae800450000e87b1e0000488b73506448393425f8ff" +
				"ffff750ae807450000e8621e0000488b44240848894310488d4424104889430864488b3425f8ffffff48897318488b04" +
				"2448894640488d4424084889463848896e6848895650488b1b6448891c25f8ffffff488b6338e8d5450000e8101e0000" +
				"c3",
			from: 65, to: 106, losesFP: false, path: []int64{-8, 48, 192, 56}, fp: 104,
		},
		"Go 1.19, position-independent": {
			machine: goX86{},
			systemstack: "488b7c240848c7c1f8ffffff64488b01488b5830483b43507453488b134839d0744b483b83c0000000754ae8d0f1ffff" +
				"644889114989d6488b5a384889dc4889fa488b3fffd748c7c1f8ffffff64488b01488b5830488b83c000000064488901" +
				"488b603848c7403800000000c34889fa488b3fffe7488d0544470000ffd0cd03",
			morestack: "48c7c1f8ffffff64488b19488b5b30488b3364483931750ae8a3450000e8fe1e0000488b735064483931750ae8af4500" +
				"00e8ea1e0000488b44240848894310488d4424104889430848c7c1f8ffffff64488b3148897318488b04244889464048" +
				"8d4424084889463848896e6848895650488b1b64488919488b6338e880460000e89b1e0000c3",
			from: 62, to: 100, losesFP: false, path: []int64{-8, 48, 192, 56}, fp: 104,
		},
		"Go 1.19, arm64": {
			machine: goAArch64{},
			systemstack: "fe0f1ff8fd831ff8fd2300d1e30f40f9fa0303aa841b40f9852840f9bf001cebc0030054850040f9bf001ceb60030054" +
				"866040f9df001ceba00000542300009063c0349160003fd62a09001415feff97fc0305aae30e0094831f40f97f000091" +
				"9d3740f9430340f960003fd6831b40f97c6040f9db0e0094801f40f91f0000919d3740f99f1f00f99f3700f9fdfb7fa9" +
				"ff430091c0035fd6430340f9fe0741f8fd2300d160001fd60000000000000000",
			morestack: "881b40f9040140f99f001ceb610000543c0f00940b090014042940f99f001ceb610000543b0f009406090014e0030091" +
				"801f00f99d3700f99e2300f9833300f99a2b00f9030900f9e0030091000500f91c0d00f91c0140f9b60e0094801f40f9" +
				"1f0000919d3740f9ff0f1ff8510f00940017a7be000000000000000000000000",
			from: 96, to: 128, losesFP: true, path: []int64{0, 48, 192, 56}, fp: 104,
		},
		"Go 1.26": {
			machine: goX86{},
			systemstack: "554889e5488b7c241064488b0425f8ffffff488b5830483b43487465488b134839d0745d483b83b8000000755de8aef2" +
				"ffff6448891425f8ffffff4989d6488b62384889fa488b3fffd764488b0425f8ffffff488b5830488b83b80000006448" +
				"890425f8ffffff488b6038488b686048c740380000000048c74060000000005dc34889fa488b3f5dffe7488d056f3e00" +
				"00ffd0cd03",
			morestack: "64488b3c25f8ffffff488b5f30488b042448894740488d4424084889473848896f6048895750488b334839f7750ae86d" +
				"3c0000e828180000488b73484839f7750ae87a3c0000e815180000488b44240848894310488d4424104889430848897b" +
				"18488b1b6448891c25f8ffffff488b633848c7c500000000e8633d0000e8de170000c3",
			from: 66, to: 107, losesFP: false, path: []int64{-8, 48, 184, 56}, fp: 96,
		},
		"Go 1.26, arm64": {
			machine: goAArch64{},
			systemstack: "fe0f1ff8fd831ff8fd2300d1e30f40f9fa0303aa841b40f9852440f9bf001ceba0030054850040f9bf001ceb40030054" +
				"865c40f9df001ceba00000542300009063c0069160003fd6fe07001445feff97fc0305aa9b0c0094831f40f97f000091" +
				"430340f960003fd6831b40f97c5c40f9940c0094801f40f91f0000919d3340f99f1f00f99f3300f9fd835ff8fe0741f8" +
				"c0035fd6430340f9fe0741f8fd2300d160001fd6000000000000000000000000",
			morestack: "881b40f9040140f9e0030091801f00f99d3300f99e2300f9832f00f99a2b00f99f001ceb61000054860d0094c5070014" +
				"042540f99f001ceb61000054850d0094c0070014030900f9e0030091000500f91c0d00f91c0140f95a0c0094801f40f9" +
				"1f000091fd031faaff0f1ff8a10d009400000000000000000000000000000000",
			from: 96, to: 124, losesFP: false, path: []int64{0, 48, 184, 56}, fp: 96,
		},
	} {
		systemstack, err1 := hex.DecodeString(c.systemstack)
		morestack, err2 := hex.DecodeString(c.morestack)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		a, ok := c.machine.absence(systemstack)
		if !ok || a.from != c.from || a.to != c.to || a.losesFP != c.losesFP || !slices.Equal(a.path, c.path) {
			t.Errorf("%s: systemstack %+v, %v, want %d to %d, losesFP %v, path %v", name, a, ok, c.from, c.to,
				c.losesFP, c.path)
		}
		if fp, ok := c.machine.keepsFP(morestack); !ok || fp != c.fp {
			t.Errorf("%s: the frame pointer is kept at %d, %v, want %d", name, fp, ok, c.fp)
		}
	}
}

// TestNoGoroutine has code that does not show it: the offset of the thread's word comes from a slot
// that the loader fills in, or a load does not use the previously loaded value.
func TestNoGoroutine(t *testing.T) {
	for name, code := range map[string]string{
		// mov 0x1234(%rip),%rcx; mov %fs:(%rcx),%rax; mov 48(%rax),%rbx
		"a slot": "488b0d34120000" + "64488b01" + "488b5830",
		// mov %fs:-8,%rax; mov 48(%rax),%rbx; mov %edi,%ebx; call *%rdi: another value
		"another value": "64488b0425f8ffffff" + "488b5830" + "89fb",
		// mov %fs:-8,%rax; mov 48(%rax),%rbx; add %rdx,%rbx
		"arithmetic": "64488b0425f8ffffff" + "488b5830" + "4801d3",
	} {
		// mov 56(%rdx),%rsp; call *%rdi; CODE; mov 192(%rbx),%rax; mov 56(%rax),%rsp; ret
		text, err := hex.DecodeString("488b6238" + "ffd7" + code + "488b83c0000000" + "488b6038" + "c3")
		if err != nil {
			t.Fatal(err)
		}
		a, ok := (goX86{}).absence(text)
		if !ok || a.from != 4 || a.to != len(text)-1 || a.ret != len(text) || len(a.path) != 0 {
			t.Errorf("%s: %+v, %v", name, a, ok)
		}
	}
}
