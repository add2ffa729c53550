package probe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headwater/headwater/flame/kind"
)

func TestParse(t *testing.T) {
	for link, want := range map[string]Probe{
		"uprobe:/bin/bash:readline":    {Type: "uprobe", Path: "/bin/bash", Symbol: "readline"},
		"uprobe:/srv/a:b/prog:f+0x10":  {Type: "uprobe", Path: "/srv/a:b/prog", Symbol: "f", Offset: 16},
		"uretprobe:/bin/bash:readline": {Type: "uretprobe", Path: "/bin/bash", Symbol: "readline"},
		"usdt:/lib/libc.so.6:libc:setjmp": {
			Type: "usdt", Path: "/lib/libc.so.6", Group: "libc", Symbol: "setjmp",
		},
		"tracepoint:sched:sched_switch": {Type: "tracepoint", Group: "sched", Symbol: "sched_switch"},
		"software:cpu-migrations":       {Type: "software", Symbol: "cpu-migrations"},
		"kprobe:vfs_read+4":             {Type: "kprobe", Symbol: "vfs_read", Offset: 4},
		"kretprobe:vfs_read":            {Type: "kretprobe", Symbol: "vfs_read"},
	} {
		want.Link, want.Value, want.Unit, want.Period = link, Calls, "count", 1
		got, err := Parse(link)
		require.NoError(t, err, link)
		require.Equal(t, want, got)
	}
	got, err := Parse("uprobe:/lib/libc.so.6:malloc value=arg1  unit=bytes period=100 name=allocated")
	require.NoError(t, err)
	require.Equal(t, Value(1), got.Value)
	require.Equal(t, "bytes", got.Unit)
	require.EqualValues(t, 100, got.Period)
	require.Equal(t, "allocated", got.Series())
}

func TestParseRefuses(t *testing.T) {
	for link, want := range map[string]string{
		"":                                "it is empty: want a link such as uprobe:PATH:FUNCTION[+OFFSET]",
		"fentry:vfs_read":                 `"fentry" is no type of probe: want uprobe, uretprobe, unsafe-uretprobe, usdt,`,
		"uprobe:/bin/bash":                "want uprobe:PATH:FUNCTION[+OFFSET]",
		"uprobe::readline":                "want uprobe:PATH:FUNCTION[+OFFSET]",
		"usdt:/bin/bash:x":                "want usdt:PATH:PROVIDER:NAME",
		"tracepoint:sched_switch":         "want tracepoint:GROUP:NAME",
		"uprobe:/bin/bash:f+x":            `"f+x" is no function and offset`,
		"software:naps":                   `"naps" is no software event: want page-faults,`,
		"uprobe:/b:f size=1":              `"size=1" is no option: want value=, unit=, period= or name=`,
		"uprobe:/b:f value=arg7":          `value must be ret or arg1 to arg6, with :int after it for an int, got "arg7"`,
		"uprobe:/b:f value=ret":           "value=ret is the return value",
		"uprobe:/b:f+1 value=arg1":        "value=arg1 needs a uprobe at the start of a function",
		"uprobe:/b:f unit=bytes":          "unit=bytes needs a value: add value=arg1, for example",
		"uprobe:/b:f value=arg1 unit=mi":  `unit must be count, bytes or nanoseconds, got "mi"`,
		"uprobe:/b:f period=0":            `period must be between 1 and 2147483648, got "0"`,
		"uprobe:/b:f name=9":              `name "9" must have only letters, digits and _`,
		"tracepoint:sched:x value=arg1":   "value=arg1 needs a uprobe",
		"software:page-faults value=ret":  "value=ret is the return value",
		"kretprobe:vfs_read value=ret":    "value=ret is the return value",
		"uprobe:/b:f period=2147483649":   "period must be between",
		"uprobe:/b:f+0x8000000000000000 ": "is no function and offset",
	} {
		_, err := Parse(link)
		require.ErrorContains(t, err, want, link)
	}
}

func TestInfo(t *testing.T) {
	for link, want := range map[string]string{
		"uprobe:/lib/libc.so.6:malloc":                        "uprobe_malloc:hits:count",
		"uprobe:/lib/libc.so.6:malloc value=arg1 unit=bytes":  "uprobe_malloc:space:bytes",
		"uretprobe:/b:main.(*T).f value=ret unit=nanoseconds": "uretprobe_main_T_f:time:nanoseconds",
		"usdt:/b:shop:sold":                                   "usdt_shop_sold:hits:count",
		"uprobe:/b:f value=arg2 name=items":                   "items:sum:count",
	} {
		p, err := Parse(link)
		require.NoError(t, err)
		info := p.Info()
		require.Equal(t, want, info.Series+":"+info.Values[0].Type+":"+info.Values[0].Unit)
		k, err := kind.OfProbe(info)
		require.NoError(t, err)
		again, err := kind.OfProbe(p.Info())
		require.NoError(t, err)
		require.Equal(t, k, again)
		require.GreaterOrEqual(t, k, kind.Count)
		require.Equal(t, info, kind.Of(k))
	}
}
