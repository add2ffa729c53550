package early

const sysUserfaultfd = 282 // of asm-generic/unistd.h
