import java.security.MessageDigest;

/** Burns CPU in digests that the VM has code of its own for. */
class Hash {
    static final byte[] DATA = new byte[1 << 16];

    static void digest(MessageDigest digest) { digest.digest(DATA); }

    public static void main(String[] names) throws Exception {
        MessageDigest[] digests = new MessageDigest[names.length];
        for (int i = 0; i < names.length; i++) digests[i] = MessageDigest.getInstance(names[i]);
        System.out.println("begins");
        for (;;) for (MessageDigest one : digests) digest(one);
    }
}
