//! Where figures can be read.

use rstest::rstest;

use super::{error, fine};

#[rstest]
#[case::port_alone("9464")]
#[case::name("localhost:9464")]
#[case::no_port("127.0.0.1")]
#[case::empty("")]
fn what_is_no_address_is_an_error_with_an_example(#[case] listen: &str) {
    let text = error(&format!("[admin]\nlisten = \"{listen}\""));
    assert!(text.contains("config.toml:2:10: `listen`") && text.contains("127.0.0.1:9464"), "{text}");
}

#[test]
fn it_is_off_by_default_and_an_open_address_is_warned_of() {
    assert_eq!(fine("").config.admin.address(), None);
    for (listen, warned) in [("127.0.0.1:9464", false), ("[::1]:0", false), ("0.0.0.0:9464", true)] {
        let loaded = fine(&format!("[admin]\nlisten = \"{listen}\""));
        assert_eq!(loaded.config.admin.address(), listen.parse().ok());
        assert_eq!(loaded.warnings.iter().any(|warning| warning.contains("firewall")), warned, "{listen}");
    }
}
